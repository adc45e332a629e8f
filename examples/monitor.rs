//! A monitor: one thread sends messages between two queue pairs, as `perf` does, and another prints
//! their counters each interval. Both ends are in this process: on the first RDMA device, or on the
//! loopback device if there is none or with `-d loopback`.

#![forbid(unsafe_code)]

use std::fmt::Display;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use bpaf::Bpaf;
use proverbs::completion::{CqCounters, Direction};
use proverbs::device::LinkLayer;
use proverbs::loopback::Fabric;
use proverbs::post::Refusal;
use proverbs::prelude::*;
use proverbs::qp::{NoDepth, QpCounters};

/// Sends messages, and shows the counters of the queues
#[derive(Bpaf)]
#[bpaf(options)]
struct Options {
    /// RDMA device; "loopback" needs none [default: the first one, or loopback]
    #[bpaf(short('d'), long("ib-dev"), env("PROVERBS_DEVICE"), argument("DEVICE"))]
    device: Option<String>,
    /// Bytes of a message [default: 4096]
    #[bpaf(short, long, argument("BYTES"), fallback(4096))]
    size: usize,
    /// Work requests of each queue [default: 64]
    #[bpaf(short('t'), long, argument("DEPTH"), guard(|n| *n > 0, "must be at least 1"), fallback(64))]
    depth: u32,
    /// Rows to print [default: 3]
    #[bpaf(short, long, argument("N"), fallback(3))]
    rows: u32,
    /// Milliseconds of an interval [default: 1000]
    #[bpaf(short, long, argument("MS"), guard(|n| *n > 0, "must be at least 1"), fallback(1000))]
    interval: u64,
}

profile! { Watched { counted: true, initiator: NoReads } }

/// A client that sends, and a server that receives.
struct Traffic {
    client: QueuePair<Rc, Rts, Watched>,
    server: QueuePair<Rc, Rts, Watched>,
    sends: CompletionQueue,
    receives: CompletionQueue,
    pool: Pool,
    size: usize,
}

/// The counters of the traffic. They can be on any thread, and keep none of its objects.
struct Shown {
    client: QpCounters,
    sends: CqCounters,
    receives: CqCounters,
}

fn main() -> Result<()> {
    let options = options().run();
    let traffic = Traffic::new(&open(&options)?, &options)?;
    println!("{} bytes a message, {} in flight", options.size, options.depth);
    let shown = Shown {
        client: traffic.client.counters(),
        sends: traffic.sends.counters().context("created with `counted`")?,
        receives: traffic.receives.counters().context("created with `counted`")?,
    };
    let interval = Duration::from_millis(options.interval);
    let end = Instant::now() + interval * options.rows + interval / 2;
    let (running, ended) = channel(); // dropping `running` ends the monitor's last interval
    let monitor = thread::spawn(move || shown.print(interval, &ended));
    let result = traffic.run(end);
    drop(running);
    monitor.join().map_err(|_| anyhow::anyhow!("the monitor panicked"))?;
    result
}

fn open(options: &Options) -> Result<Context> {
    let name = match (&options.device, devices().as_deref()) {
        (Some(name), _) => name.clone(),
        (None, Ok([first, ..])) => first.name.clone(),
        (None, none) => {
            // Perhaps libibverbs is not installed, or this process may not open the device's file.
            println!("{}", none.err().map_or("no RDMA device here".into(), ToString::to_string));
            "loopback".into()
        }
    };
    if name == "loopback" {
        println!("both ends are on the loopback device: software, not a network");
        return Ok(Fabric::new().open_device());
    }
    Ok(Context::open(&name)?)
}

impl Traffic {
    fn new(context: &Context, options: &Options) -> Result<Traffic> {
        let &Options { depth, size, .. } = options;
        let pd = context.alloc_pd()?;
        let cq = || context.cq(0).queue_pairs(1, Depth { send: depth, recv: depth }).counted();
        let (sends, receives) = (cq().create()?, cq().create()?);
        let client = pd.create_qp(&sends, &sends, Depth { send: depth, recv: 0 })?;
        let server = pd.create_qp(&receives, &receives, Depth { send: 0, recv: depth })?;
        let (client_num, server_num) = (client.qp_num(), server.qp_num());
        let client = connect(context, client, server_num)?;
        let mut server = connect(context, server, client_num)?;
        // One more, for the send that does not fit.
        let pool = pd.create_pool(2 * depth as usize + 1, size)?;
        for _ in 0..depth {
            server.post_recv(wr::Recv::new(pool.take().context("no buffer")?))?;
        }
        Ok(Traffic { client, server, sends, receives, pool, size })
    }

    /// Keeps the send queue full until `end`, and then waits for the last completions.
    fn run(mut self, end: Instant) -> Result<()> {
        loop {
            for completion in self.receives.poll()? {
                completion.status()?;
                let buf = completion.into_entry().context("receives have buffers")?;
                self.server.post_recv(wr::Recv::new(buf))?;
            }
            for completion in self.sends.poll()? {
                completion.status()?;
            }
            let is_over = Instant::now() >= end;
            if is_over && self.client.sends_outstanding() == 0 {
                return Ok(());
            }
            while let (false, Some(mut buf)) = (is_over, self.pool.take()) {
                buf.set_len(self.size);
                match self.client.post_send(wr::Send::new(buf)) {
                    Err(error) if error.is_full() => break,
                    posted => posted?,
                }
            }
        }
    }
}

impl Shown {
    /// Prints a row each interval, until the traffic ends.
    fn print(&self, interval: Duration, ended: &Receiver<()>) {
        let names = ["posts/s", "completions/s", "sent MB/s", "received MB/s", "queue full/s"];
        row(&[&names, &["failed/s", "outstanding"][..]].concat());
        let (mut before, mut then) = (self.read(), Instant::now());
        while ended.recv_timeout(interval) == Err(RecvTimeoutError::Timeout) {
            let (now, at) = (self.read(), Instant::now());
            let seconds = (at - then).as_secs_f64();
            let rate = |i: usize, unit: f64| (now[i] - before[i]) as f64 / seconds / unit;
            let units = [1.0, 1.0, 1e6, 1e6, 1.0, 1.0];
            let mut cells: Vec<_> = (0..6).map(|i| format!("{:.0}", rate(i, units[i]))).collect();
            let outstanding = self.client.outstanding(Direction::Send);
            cells.push(outstanding.unwrap_or(0).to_string());
            row(&cells);
            (before, then) = (now, at);
        }
        for (status, count) in self.sends.failures().chain(self.receives.failures()) {
            println!("{count} completions: {status}");
        }
    }

    /// Posts, completions, sent and received bytes, posts to a full queue, and failures.
    fn read(&self) -> [u64; 6] {
        let failed = |cq: &CqCounters| cq.failures().map(|(_, count)| count).sum::<u64>();
        [
            self.client.posted(Direction::Send).unwrap_or(0),
            self.sends.completions() + self.receives.completions(),
            self.client.sent_bytes().unwrap_or(0),
            self.receives.received_bytes(),
            self.client.refused(Direction::Send, Refusal::QueueFull),
            failed(&self.sends) + failed(&self.receives),
        ]
    }
}

fn row(cells: &[impl Display]) {
    println!("{}", cells.iter().map(|cell| format!("{cell:>15}")).collect::<String>());
}

/// Connects `qp` to `peer`, a queue pair of the same port.
fn connect(
    context: &Context,
    qp: QueuePair<Rc, Reset, Watched>,
    peer: u32,
) -> Result<QueuePair<Rc, Rts, Watched>> {
    let port = context.query_port(1)?;
    let index = match std::env::var("PROVERBS_GID_INDEX") {
        Ok(index) => index.parse()?,
        Err(_) if port.link_layer == LinkLayer::Ethernet => context.roce_v2_gid(1)?.index(),
        Err(_) => 0, // the GID of an InfiniBand port itself
    };
    let gid = context.query_gid(1, index)?;
    let address = AddressVector { dlid: port.lid, ..AddressVector::roce(1, gid, index) };
    let psn = Psn::try_from(7)?;
    let init = ConnectedInit { pkey_index: 0, port: 1, access: QpAccess::empty() };
    let rtr = RcRtr::new(address, Qpn::try_from(peer)?, psn);
    Ok(qp.modify(init)?.modify(rtr)?.modify(RcRts::new(psn, NoDepth))?)
}
