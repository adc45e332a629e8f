//! Shared code of the ping-pongs: options, connecting the two ends, contents of messages.
//!
//! The ping-pongs speak the wire format of rdma-core's `ibv_{rc,uc,ud,srq}_pingpong` and can be run
//! against them, in both roles. They wait for completion events, like the C programs with `-e`. Use
//! the example `perf` for measurements. Without an RDMA device both ends run in this process, on
//! the loopback device.

mod record;

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::{cell::OnceCell, time::Duration, time::Instant};

pub use anyhow::{Context as _, Result, bail, ensure};
use bpaf::Bpaf;
use proverbs::{bounded::Mtu, endpoint::Endpoint, loopback::Fabric, prelude::*};
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
    #[bpaf(short, long, argument::<u32>("BYTES"), parse(Mtu::try_from), optional)]
    pub mtu: Option<Mtu>,
    /// Queue pairs of srq_pingpong, the same number on both ends [default: 16]
    #[bpaf(short('q'), long, argument("QPS"))]
    pub num_qp: Option<usize>,
    /// Receives to post [default: 500]
    #[bpaf(short, long, argument("DEPTH"), guard(|n| *n > 1, "must be at least 2"), fallback(500))]
    pub rx_depth: u32,
    /// Exchanges [default: 1000]
    #[bpaf(short('n'), long, argument("N"), guard(|n| *n > 0, "must be at least 1"), fallback(1000))]
    pub iters: u32,
    /// Check every byte of every message
    #[bpaf(short, long("chk"))]
    pub check: bool,
    /// The server to connect to; without it, this is the server
    #[bpaf(positional("SERVER"))]
    server: Option<String>,
}

/// A peer that is silent for this long is considered dead. UC and UD do not retransmit, so a lost
/// packet ends the exchange too.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// One end, with its device and a stream to the other end.
pub struct Station {
    pub context: Context,
    pub options: Options,
    pub gid_index: Option<u8>,
    /// The client sends first, here and afterwards.
    pub is_client: bool,
    link: TcpStream,
    first: OnceCell<Vec<u8>>,
}

/// Runs `end` on the device, or twice in this process.
pub fn run(end: fn(&Station) -> Result<()>) -> Result<()> {
    let options = options().run();
    let all = || devices().inspect_err(|why| println!("{why}")).unwrap_or_default().into_iter();
    let name = options.device.clone().or_else(|| Some(all().next()?.name));
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
        std::thread::spawn(move || end(&station?).inspect_err(|why| eprintln!("{why:#}")))
    });
    let ended = ends.map(|end| end.join().is_ok_and(|result| result.is_ok()));
    ensure!(ended == [true, true], "one end has failed");
    Ok(())
}

/// A TCP connection to the server, or from a client.
fn dial(Options { server, port, .. }: &Options) -> Result<TcpStream> {
    // IPv6's wildcard takes IPv4 too, where there is IPv6.
    let any = [(Ipv6Addr::UNSPECIFIED, *port).into(), (Ipv4Addr::UNSPECIFIED, *port).into()];
    let link = match server {
        Some(host) => TcpStream::connect((&host[..], *port)),
        None => TcpListener::bind::<&[SocketAddr]>(&any).and_then(|at| Ok(at.accept()?.0)),
    };
    link.with_context(|| format!("no connection to {server:?}, TCP port {port}"))
}

impl Station {
    fn new(context: Context, options: &Options, is_client: bool, link: TcpStream) -> Result<Self> {
        link.set_read_timeout(Some(PATIENCE))?;
        // InfiniBand does not have RoCE GIDs, and does not need one.
        let best = || context.roce_v2_gid(options.ib_port).ok().map(|gid| gid.index());
        let (gid_index, options) = (options.gid_index.or_else(best), options.clone());
        Ok(Self { context, options, gid_index, is_client, link, first: OnceCell::new() })
    }

    /// Exchanges addresses with the peer, `wire` of them each way, and connects to it.
    pub fn meet<C>(
        &self,
        mine: &[Endpoint],
        wire: usize,
        connect: impl FnOnce(Vec<(Endpoint, AddressVector)>) -> Result<C>,
    ) -> Result<C> {
        mine.iter().for_each(|mine| println!("  local address:  {}", to_text(mine)));
        // With one write, because the C server reads a record with one read.
        let records: String = mine.iter().map(|mine| to_text(mine) + "\0").collect();
        let records = records + &UNUSED.repeat(wire - mine.len());
        if self.is_client {
            self.write(&records)?;
        }
        let theirs = self.read(records.len())?;
        let used = theirs.chunks(UNUSED.len()).take_while(|record| record[5..11] != *b"000000");
        let peers = used.map(|record| {
            let peer = from_wire(record, mine[0].service());
            let peer = peer.with_context(|| format!("no address: {}", record.escape_ascii()))?;
            println!("  remote address: {}", to_text(&peer));
            let path = peer.address(&self.context, self.options.ib_port, self.gid_index)?;
            Ok((peer, path))
        });
        let peers = peers.collect::<Result<Vec<_>>>()?;
        let (there, here) = (peers.len(), mine.len());
        ensure!(self.options.num_qp.is_none_or(|q| q == here), "-q is for srq_pingpong");
        ensure!(there == here, "the peer has {there} queue pairs, not {here}: use the same -q");
        let connected = connect(peers)?;
        // The server replies when it can receive, and the client may send when it has the reply.
        if self.is_client {
            self.write("done\0")?;
        } else {
            self.write(&records)?;
            let done = self.read(5)?;
            ensure!(done == b"done\0", "the peer said {}, not done", done.escape_ascii());
        }
        Ok(connected)
    }

    fn write(&self, text: &str) -> Result<()> {
        (&self.link).write_all(text.as_bytes()).context("cannot write to the peer")
    }

    fn read(&self, len: usize) -> Result<Vec<u8>> {
        let mut bytes = vec![0; len];
        let read = (&self.link).read_exact(&mut bytes);
        read.with_context(|| format!("not {len} bytes from the peer within {PATIENCE:?}"))?;
        Ok(bytes)
    }

    /// Prepares a buffer for a receive. Fills it with a byte that no message contains, so that old
    /// contents cannot be mistaken for a message.
    pub fn blank(&self, mut buf: Buf) -> Buf {
        buf.set_len(buf.capacity());
        buf[..].fill(0xff);
        buf
    }

    /// The client's first message: a pattern, with 0 at the start of each page, which the C program
    /// checks with -c.
    pub fn first(&self, size: usize, mut buf: Buf) -> Buf {
        buf.set_len(size);
        (0..).zip(&mut buf[..]).for_each(|(at, byte)| *byte = at as u8);
        self.first.get_or_init(|| buf.to_vec());
        buf
    }

    /// Checks a message from the peer. Both ends, ours and C's, send back the message they
    /// received, so all messages of a run are the same.
    pub fn check(&self, size: usize, message: Buf) -> Result<Buf> {
        let len = message.len();
        ensure!(len == size, "a message of {len} bytes arrived, not of {size}: use the same -s");
        let is_right = |first: &Vec<u8>| !self.options.check || first[..] == message[..];
        ensure!(is_right(self.first.get_or_init(|| message.to_vec())), "a message has changed");
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
