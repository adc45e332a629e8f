//! The parts that the ping-pongs share: options, the meeting of two ends, contents of messages.
//!
//! The ping-pongs speak the wire format of rdma-core's `ibv_{rc,uc,ud,srq}_pingpong` and can be run
//! against them, in both roles. Without an RDMA device both ends run in this process, on the
//! loopback device.

#![allow(dead_code)] // UD has no path MTU, and tokio_pingpong awaits

#[path = "../patience/mod.rs"]
mod patience;
mod record;

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::{cell::Cell, time::Duration, time::Instant};

pub use anyhow::{Context as _, Result, bail, ensure};
use bpaf::Bpaf;
use proverbs::{bounded::Mtu, completion::Completions, endpoint::Endpoint};
use proverbs::{loopback::Fabric, prelude::*};
use record::{UNUSED, from_wire, to_text};

/// SEND ping-pong, on the wire as rdma-core's program: rc_pingpong as ibv_rc_pingpong
#[derive(Bpaf, Clone)]
#[bpaf(options)]
pub struct Options {
    /// RDMA device; "loopback" runs both ends in this process [default: the first one, or loopback]
    #[bpaf(short('d'), long("ib-dev"), env("PROVERBS_DEVICE"), argument("DEVICE"))]
    device: Option<String>,
    /// Index of the local GID [default on RoCE: a RoCE v2 GID, a routable one if there is one]
    #[bpaf(short, long("gid-idx"), env("PROVERBS_GID_INDEX"), argument("INDEX"))]
    gid_index: Option<u8>,
    /// Port of the device [default: 1]
    #[bpaf(short, long, argument("PORT"), guard(|n| *n > 0, "must be at least 1"), fallback(1))]
    pub ib_port: u8,
    /// TCP port to listen on or to connect to [default: 18515]
    #[bpaf(short, long, argument("PORT"), fallback(18515))]
    port: u16,
    /// Bytes of a message [default: 4096; UD 1024]
    #[bpaf(short, long, argument("BYTES"), guard(|n| *n > 0, "must be at least 1"), optional)]
    pub size: Option<usize>,
    /// Path MTU: 256, 512, 1024, 2048 or 4096; not for UD [default: 1024]
    #[bpaf(short, long, argument::<u32>("BYTES"), parse(mtu), optional)]
    pub mtu: Option<Mtu>,
    /// Queue pairs of srq_pingpong, the same number on both ends [default: 16]
    #[bpaf(short('q'), long, argument("QPS"))]
    pub num_qp: Option<usize>,
    /// Receives to post [default: 500]
    #[bpaf(short, long, argument("DEPTH"), guard(|n| *n > 0, "must be at least 1"), fallback(500))]
    pub rx_depth: u32,
    /// Exchanges [default: 1000]
    #[bpaf(short('n'), long, argument("N"), guard(|n| *n > 0, "must be at least 1"), fallback(1000))]
    pub iters: u32,
    /// Service level, 0 to 15 [default: 0]
    #[bpaf(short('l'), long, argument("SL"), guard(|n| *n < 16, "must be 0 to 15"), fallback(0))]
    sl: u8,
    /// Sleep on completion events instead of polling
    #[bpaf(short, long)]
    events: bool,
    /// Check every byte of every message
    #[bpaf(short, long("chk"))]
    pub check: bool,
    /// Whom to connect to; absent, this is the server
    #[bpaf(positional("SERVER"))]
    server: Option<String>,
}

fn mtu(bytes: u32) -> std::result::Result<Mtu, &'static str> {
    Mtu::from_bytes(bytes).ok_or("a path MTU is 256, 512, 1024, 2048 or 4096")
}

/// One end, with its device and a stream to the other end.
pub struct Station {
    pub context: Context,
    pub options: Options,
    pub gid_index: Option<u8>,
    /// The client sends first, here and afterwards.
    pub is_client: bool,
    link: TcpStream,
    /// A peer that says nothing for so long is gone.
    pub patience: Duration,
    /// With -c, whether the peer is a C client, once that is known.
    is_constant: Cell<Option<bool>>,
}

/// Runs `end` on the device, or twice in this process, and reports failure as C programs do.
pub fn main(end: fn(&Station) -> Result<()>) {
    run(options().run(), end).unwrap_or_else(|error| fail(error));
}

fn fail(error: anyhow::Error) -> ! {
    eprintln!("{}: {error:#}", env!("CARGO_BIN_NAME"));
    std::process::exit(1)
}

fn run(options: Options, end: fn(&Station) -> Result<()>) -> Result<()> {
    let first = || devices().inspect_err(|why| println!("{why}")).ok()?.into_iter().next();
    let name = options.device.clone().or_else(first);
    if let Some(name) = name.filter(|name| name != "loopback") {
        let (context, link) = (Context::open(&name)?, dial(&options)?);
        return end(&Station::new(context, &options, options.server.is_some(), link)?);
    }
    ensure!(options.server.is_none(), "the loopback device reaches this process only: no SERVER");
    println!("both ends run in this process, on the loopback device");
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let (fabric, there) = (Fabric::new(), TcpStream::connect(listener.local_addr()?)?);
    let ends = [(false, listener.accept()?.0), (true, there)].map(|(is_client, link)| {
        let station = Station::new(fabric.open_device(), &options, is_client, link);
        // The first failure ends the program.
        std::thread::spawn(move || end(&station?).or_else(|error| fail(error)))
    });
    ends.into_iter().try_for_each(|end| end.join().expect("one end has panicked"))
}

/// A TCP connection to the server, or from a client.
fn dial(Options { server, port, .. }: &Options) -> Result<TcpStream> {
    // IPv6's wildcard takes IPv4 too, where there is IPv6.
    let any = [(Ipv6Addr::UNSPECIFIED, *port).into(), (Ipv4Addr::UNSPECIFIED, *port).into()];
    match server {
        Some(host) => TcpStream::connect((host.as_str(), *port))
            .with_context(|| format!("cannot connect to {host}, TCP port {port}")),
        None => TcpListener::bind::<&[SocketAddr]>(&any)
            .and_then(|listener| Ok(listener.accept()?.0))
            .with_context(|| format!("cannot listen on TCP port {port}")),
    }
}

impl Station {
    fn new(context: Context, options: &Options, is_client: bool, link: TcpStream) -> Result<Self> {
        let (patience, options) = (patience::patience(Duration::from_secs(10)), options.clone());
        link.set_read_timeout(Some(patience))?;
        let given = options.gid_index.map(|index| context.query_gid_entry(options.ib_port, index));
        given.transpose().context("-g: the example devinfo lists the GIDs of the port")?;
        // InfiniBand has none, and needs none.
        let best = || context.roce_v2_gid(options.ib_port).ok().map(|gid| gid.index());
        let gid_index = options.gid_index.or_else(best);
        let is_constant = Cell::new(is_client.then_some(false));
        Ok(Station { context, options, gid_index, is_client, link, patience, is_constant })
    }

    /// The way to `peer`.
    pub fn path_to(&self, peer: &Endpoint) -> Result<AddressVector> {
        let path = peer.address(&self.context, self.options.ib_port, self.gid_index)?;
        Ok(AddressVector { sl: self.options.sl.try_into()?, ..path })
    }

    /// Exchanges addresses with the peer, `wire` of them each way. The server answers in `ready`,
    /// when it has connected and can receive.
    pub fn meet(&self, mine: &[Endpoint], wire: usize) -> Result<Vec<Endpoint>> {
        let (records, service) = (records(mine, wire), mine[0].service());
        mine.iter().for_each(|mine| println!("  local address:  {}", to_text(mine)));
        if self.is_client {
            self.write(&records)?;
        }
        let mut theirs = vec![0; records.len()];
        self.read(&mut theirs, "address")?;
        let used = theirs.chunks(UNUSED.len()).take_while(|record| record[5..11] != *b"000000");
        let peers: Option<Vec<_>> = used.map(|record| from_wire(record, service)).collect();
        let peers = peers.with_context(|| format!("not addresses: {}", theirs.escape_ascii()))?;
        peers.iter().for_each(|peer| println!("  remote address: {}", to_text(peer)));
        let (there, here) = (peers.len(), mine.len());
        ensure!(self.options.num_qp.is_none_or(|q| q == here), "-q is for srq_pingpong");
        ensure!(there == here, "the peer has {there} queue pairs, not {here}: use the same -q");
        Ok(peers)
    }

    /// The client may send when this has returned.
    pub fn ready(&self, mine: &[Endpoint], wire: usize) -> Result<()> {
        if self.is_client {
            return self.write("done\0");
        }
        self.write(&records(mine, wire))?;
        let mut done = [0; 5];
        self.read(&mut done, "\"done\"")?;
        ensure!(done == *b"done\0", "the peer said {}, not done", done.escape_ascii());
        Ok(())
    }

    fn write(&self, text: &str) -> Result<()> {
        (&self.link).write_all(text.as_bytes()).context("cannot write to the peer")
    }

    fn read(&self, bytes: &mut [u8], what: &str) -> Result<()> {
        let read = (&self.link).read_exact(bytes);
        read.with_context(|| format!("no {what} from the peer within {:?}", self.patience))
    }

    /// The completions that are there, or an error if none came for too long: UC and UD do not
    /// retransmit, so a lost packet ends the game.
    pub fn poll<'a>(
        &self,
        cq: &'a mut CompletionQueue,
        channel: &mut CompletionChannel,
        last: &mut Instant,
    ) -> Result<Completions<'a, Buf>> {
        let completions = match self.options.events {
            true => channel.wait_timeout(cq, self.patience)?,
            false => cq.poll()?,
        };
        if !completions.is_empty() {
            *last = Instant::now();
        } else if last.elapsed() >= self.patience {
            bail!("no completion for {:?}: a packet is lost, or the peer is gone", self.patience);
        } else {
            std::thread::yield_now(); // the other end may need this processor
        }
        Ok(completions)
    }

    /// Byte `at` of the `n`th message with -c; `first` is the byte of the C namesake's first.
    ///
    /// A server sends back what it received, ours and C's. So a client of ours sends a pattern that
    /// differs from message to message, and checks that each comes back. The client of C sends a
    /// constant, and then what it received last. Its first message tells a server which it is. At
    /// the start of a page, where C's -c looks, all have a 0.
    fn byte(&self, n: u32, at: usize, first: u8) -> u8 {
        match (self.is_constant.get(), at % 4096) {
            (_, 0) => 0,
            (Some(true), _) => first,
            _ => 1 + ((n as usize * 97 + at + at / 251) % 251) as u8,
        }
    }

    /// The buffer, ready to be received into: with a byte that is in no message, so that nothing
    /// that was there before can pass for one.
    pub fn blank(&self, mut buf: Buf) -> Buf {
        if self.options.check {
            buf.set_len(buf.capacity());
            // `Buf::fill` copies a slice, and hides that of slices.
            buf[..].fill(0xff);
        }
        buf
    }

    /// The `n`th message to the peer: a pattern from a client with -c, otherwise what is there.
    pub fn fill(&self, n: u32, size: usize, mut buf: Buf) -> Buf {
        buf.set_len(size);
        if self.options.check && self.is_client {
            buf.iter_mut().enumerate().for_each(|(at, byte)| *byte = self.byte(n, at, 0));
        }
        buf
    }

    /// The `n`th message from the peer, if it is the right one.
    pub fn check(&self, n: u32, size: usize, first: u8, message: Buf) -> Result<Buf> {
        let len = message.len();
        ensure!(len == size, "a message of {len} bytes arrived, not of {size}: use the same -s");
        if !self.options.check {
            return Ok(message);
        }
        let wrong = || (0..).zip(&message[..]).find(|(at, is)| **is != self.byte(n, *at, first));
        if self.is_constant.get().is_none() {
            self.is_constant.set(Some(wrong().is_some()));
        }
        let wrong = wrong().map(|(at, is)| (at, *is, self.byte(n, at, first)));
        ensure!(wrong.is_none(), "message {n} is wrong: {wrong:?} (offset, is, should be)");
        Ok(message)
    }

    pub fn report(&self, size: usize, began: Instant) {
        let (iters, time) = (f64::from(self.options.iters), began.elapsed().as_secs_f64());
        let (bytes, usec) = (iters * 2.0 * size as f64, time * 1e6 / iters);
        println!("  {bytes} bytes in {time:.2} seconds = {:.2} Mbit/sec", bytes * 8e-6 / time);
        println!("  {iters} iters in {time:.2} seconds = {usec:.2} usec/iter");
        if self.options.check {
            println!("  every byte of {iters} messages checked");
        }
    }
}

/// In one write: the C server reads a record with one read.
fn records(mine: &[Endpoint], wire: usize) -> String {
    mine.iter().map(|mine| to_text(mine) + "\0").collect::<String>()
        + &UNUSED.repeat(wire - mine.len())
}
