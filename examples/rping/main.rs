//! RDMA ping: the client exposes a buffer, the server reads it and writes it back, like rdma-core's
//! `rping`.
//!
//! ```text
//! rping -s                    # the server, for one client; with -P for any number
//! rping -c -a ADDRESS -C 10   # the client: ten pings
//! ```
//! Use the address of an RDMA network device; 127.0.0.1 does not work. Either end may be
//! rdma-core's rping.

#![forbid(unsafe_code)]

#[path = "../cm_common/mod.rs"]
mod cm_common;
mod info;

use std::io::{Write, stdout};
use std::process::ExitCode;
use std::thread;

use bpaf::Bpaf;
use cm_common::{Buffers, Result, Session, listen, report, route};
use info::{Info, WIRE_LEN};
use proverbs::cm::{Request, Tcp};
use proverbs::completion::WcOpcode;
use proverbs::prelude::*;

/// RDMA READ and WRITE ping-pong over an rdma_cm connection
#[derive(Clone, Bpaf)]
#[bpaf(options)]
struct Options {
    /// Be the server
    #[bpaf(short('s'))]
    server: bool,
    /// Be the client
    #[bpaf(short('c'))]
    client: bool,
    /// Address of the server; of this machine, for the server itself [default: any]
    #[bpaf(short('a'), argument("ADDRESS"))]
    address: Option<String>,
    /// Port to listen on or to connect to
    #[bpaf(short('p'), argument("PORT"), fallback(7174), display_fallback)]
    port: u16,
    /// Show the data of each ping
    #[bpaf(short('v'))]
    verbose: bool,
    /// Compare the returned bytes with those that were sent
    #[bpaf(short('V'))]
    validate: bool,
    /// Bytes of a ping; the server's must be as large as the client's
    #[bpaf(
        short('S'), argument("SIZE"), fallback(64), display_fallback,
        guard(|n| (32..=0x10_0000).contains(n), "must be from 32 to 1048576")
    )]
    size: u32,
    /// Number of pings; 0 for no limit
    #[bpaf(short('C'), argument("COUNT"), fallback(0), display_fallback)]
    count: u32,
    /// Serve any number of clients, several at the same time
    #[bpaf(short('P'))]
    persistent: bool,
}

fn main() -> ExitCode {
    report("rping", run(&options().run()))
}

fn run(options: &Options) -> Result<()> {
    match (options.server, options.client, &options.address) {
        (true, false, _) => serve(options),
        (false, true, Some(_)) if options.persistent => Err("-P is for the server: -s".into()),
        (false, true, Some(address)) => ping(address, options),
        (false, true, None) => Err("the client needs the server's address: -a ADDRESS".into()),
        _ => Err("either -s, for the server, or -c, for the client".into()),
    }
}

fn serve(options: &Options) -> Result<()> {
    let listening = listen::<Tcp>(options.address.as_deref(), options.port)?;
    if !options.persistent {
        return serve_one(listening.get_request()?, options);
    }
    loop {
        let (request, options) = (listening.get_request()?, options.clone());
        thread::spawn(move || {
            // The next client may succeed.
            if let Err(error) = serve_one(request, &options) {
                eprintln!("rping: {error}");
            }
        });
    }
}

fn serve_one(request: Request<Tcp>, options: &Options) -> Result<()> {
    let mut session = Session::accept(request, Buffers::in_turn(WIRE_LEN, options.size as usize))?;
    let mut count = 0;
    while let Some(source) = session.message()? {
        let data = fetch(&mut session, Info::from_wire(&source)?)?;
        if options.verbose {
            show("server ping data: ", &data)?;
        }
        go_ahead(&mut session)?;
        let sink = session.message()?.ok_or("the client disconnected during a ping")?;
        put_back(&mut session, Info::from_wire(&sink)?, data)?;
        go_ahead(&mut session)?;
        count += 1;
    }
    session.close()?;
    println!("rping: {count} pings served");
    Ok(())
}

/// Reads the client's buffer.
fn fetch(session: &mut Session, source: Info) -> Result<Buf> {
    let buf = session.pool.take().ok_or("all buffers are in use")?;
    if source.length as usize > buf.capacity() {
        let (asked, here) = (source.length, buf.capacity());
        return Err(format!("the client pings with {asked} bytes, here -S is {here}").into());
    }
    let from: RemoteSlice<RemoteRead> = source.slice();
    session.connection.qp.post_send(wr::RdmaRead::new(buf, from.read()))?;
    session.finished(WcOpcode::RdmaRead)?.ok_or_else(|| "a read without its buffer".into())
}

/// Writes the text, including its NUL, to the client's buffer.
fn put_back(session: &mut Session, sink: Info, mut data: Buf) -> Result<()> {
    let text = data.iter().position(|&byte| byte == 0).map_or(data.len(), |nul| nul + 1);
    data.set_len(text);
    let to = sink.slice::<RemoteWrite>().slice(0, text as u64)?;
    session.connection.qp.post_send(wr::RdmaWrite::new(data, to.write()))?;
    session.finished(WcOpcode::RdmaWrite).map(drop)
}

/// Sends a message whose content does not matter.
fn go_ahead(session: &mut Session) -> Result<()> {
    Ok(session.connection.qp.post_send(wr::Send::inline(&[0; WIRE_LEN]))?)
}

fn ping(server: &str, options: &Options) -> Result<()> {
    let id = route::<Tcp>(server, options.port)?;
    let size = options.size as usize;
    let mut session = Session::connect(id, Buffers::in_turn(WIRE_LEN, size))?;
    // The server gets only the rights that it needs.
    let source = session.pd.register::<RemoteRead>(size)?;
    let sink = session.pd.register::<RemoteWrite>(size)?;
    let mut back = vec![0; size];
    let mut number = 0;
    while options.count == 0 || number < options.count {
        let data = content(number, size);
        source.write_at(0, &data)?;
        say(&mut session, Info::of(source.remote()))?;
        say(&mut session, Info::of(sink.remote()))?;
        sink.read_at(0, &mut back)?;
        if options.validate && back != data {
            return Err(format!(
                "ping {number}: the returned bytes differ from those that were sent"
            )
            .into());
        }
        if options.verbose {
            show("ping data: ", &back)?;
        }
        number += 1;
    }
    session.close()?;
    let checked = if options.validate { ", every byte checked" } else { "" };
    println!("rping: {number} pings of {size} bytes{checked}");
    Ok(())
}

/// Sends a buffer's location to the server, and waits until the server has used it.
fn say(session: &mut Session, info: Info) -> Result<()> {
    session.connection.qp.post_send(wr::Send::inline(&info.to_wire()))?;
    let answer = session.message()?.ok_or("the server disconnected during a ping")?;
    match answer.len() {
        WIRE_LEN => Ok(()),
        len => Err(format!("the server's answer has {len} bytes instead of {WIRE_LEN}").into()),
    }
}

/// `rdma-ping-N: ` and a run of characters that starts one further each time; the last byte is NUL.
fn content(number: u32, size: usize) -> Vec<u8> {
    const LETTERS: std::ops::RangeInclusive<u8> = b'A'..=b'z';
    let mut data = format!("rdma-ping-{number}: ").into_bytes();
    let run = LETTERS.cycle().skip(number as usize % LETTERS.len());
    data.extend(run.take(size.saturating_sub(data.len())));
    data.truncate(size);
    data[size - 1] = 0;
    data
}

fn show(what: &str, data: &[u8]) -> Result<()> {
    let text = data.split(|&byte| byte == 0).next().unwrap_or_default();
    Ok(writeln!(stdout(), "{what}{}", text.escape_ascii())?)
}
