//! Runs one end, from opening its device to its results.

use std::hash::{BuildHasher, RandomState};
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use proverbs::cm::RDMA_UDP_QKEY;
use proverbs::completion::GRH_LEN;
use proverbs::prelude::*;
use proverbs::transport::Transport;
use serde_json::{Value, json};

use crate::connect::{Connect, Endpoint, Issues, Perf, QKEY, Way};
use crate::device::{self, Source};
use crate::end::{End, Stall};
use crate::exchange::Exchange;
use crate::link::Link;
use crate::meet::{Kept, Meeting, until};
use crate::options::{Connection, Options, Verb, name};
use crate::report::{Report, Row};
use crate::stats::Latencies;
use crate::work::{Adds, Datagrams, ReadsOf, Sends, Swaps, Work, Writes};
use crate::{Result, Role, bandwidth, interop, latency};

/// The program at the other end, and the connection to it.
pub enum Peer {
    /// This program.
    Perf(Link),
    /// A perftest program, with the address where rdma_cm connects, if it is used.
    Perftest(Exchange, Option<Meeting>),
}

/// Runs this end. The client returns a report.
pub fn run(options: &Options, context: &Context, peer: Peer, role: Role) -> Result<Option<Report>> {
    let station = Station::new(options, context, role)?;
    match (options.connection, options.verb) {
        (Connection::Rc, Verb::Send) => station.measure::<Rc, _>(peer, |_, _| Ok(Sends)),
        (Connection::Rc, Verb::Write) => station.measure::<Rc, _>(peer, |open, _| Ok(Writes(open))),
        (Connection::Rc, Verb::Read) => station.measure::<Rc, _>(peer, |open, _| Ok(ReadsOf(open))),
        (Connection::Rc, Verb::FetchAdd) => {
            station.measure::<Rc, _>(peer, |open, _| Ok(Adds(open.atomic(0)?)))
        }
        (Connection::Rc, Verb::CmpSwp) => {
            station.measure::<Rc, _>(peer, |open, _| Ok(Swaps(open.atomic(0)?)))
        }
        (Connection::Uc, Verb::Send) => station.measure::<Uc, _>(peer, |_, _| Ok(Sends)),
        (Connection::Uc, Verb::Write) => station.measure::<Uc, _>(peer, |open, _| Ok(Writes(open))),
        (Connection::Ud, Verb::Send) => {
            station.measure::<Ud, _>(peer, |_, to| Ok(Datagrams(to.ok_or("UD has a destination")?)))
        }
        // `Options::check` rejects them.
        (connection, _) => Err(format!("{} does not support that", name(connection)).into()),
    }
}

/// The measurement of this end, and its device.
pub struct Station<'a> {
    pub options: &'a Options,
    pub context: &'a Context,
    pub role: Role,
    pub source: Source,
    pub mtu: Mtu,
    /// Bytes of messages, the largest last.
    pub sizes: Vec<usize>,
}

/// One end that is not connected yet.
pub struct Ready<T: Transport, R: Issues> {
    pd: ProtectionDomain,
    qp: QueuePair<T, Init, Perf<R>>,
    cq: CompletionQueue,
    open: MemoryRegion<RemoteAll>,
    spare: Vec<Buf>,
    /// The data that the peer needs about it.
    pub mine: Endpoint,
}

/// One end that rdma_cm connected.
pub struct Met<T: Transport, R: Issues> {
    pub end: End<T, R>,
    pub pd: ProtectionDomain,
    pub mine: Endpoint,
    pub kept: Kept,
}

impl<'a> Station<'a> {
    fn new(options: &'a Options, context: &'a Context, role: Role) -> Result<Station<'a>> {
        let best = || context.roce_v2_gid(options.ib_port).ok().map(|gid| gid.index());
        let gid = options.gid_index.or_else(|| if options.local { best() } else { None });
        let source = device::source(context, options.ib_port, gid)?;
        let active = source.attr.active_mtu.unwrap_or(Mtu::Bytes1024);
        let mtu = options.mtu.unwrap_or(active);
        if mtu > active {
            let (mtu, active) = (mtu.bytes(), active.bytes());
            return Err(format!("path MTU {mtu} exceeds the port's {active}: -m {active}").into());
        }
        let sizes = options.sizes(mtu)?;
        Ok(Station { options, context, role, source, mtu, sizes })
    }

    fn measure<T: Connect, W: Work<T>>(
        self,
        peer: Peer,
        work: impl FnOnce(RemoteSlice<RemoteAll>, Option<wr::Destination>) -> Result<W>,
    ) -> Result<Option<Report>> {
        match peer {
            Peer::Perf(link) => self.with_perf(link, work),
            Peer::Perftest(exchange, meeting) => {
                interop::measure(self, exchange, meeting.as_ref(), work)
            }
        }
    }

    fn with_perf<T: Connect, W: Work<T>>(
        self,
        mut link: Link,
        work: impl FnOnce(RemoteSlice<RemoteAll>, Option<wr::Destination>) -> Result<W>,
    ) -> Result<Option<Report>> {
        let options = self.options;
        let ready = self.prepare::<T, W::Issues>(0)?;
        link.send(&json!({ "test": test(options), "endpoint": ready.mine.json() }))?;
        let hello = link.recv()?;
        agree(&test(options), &hello["test"])?;
        let peer = Endpoint::from_json(&hello["endpoint"])?;
        let (mut end, to) = self.connect(ready, &peer)?;
        let work = work(peer.open, to)?;
        let mut rows = Vec::new();
        for &size in &self.sizes {
            // Clears the region, which shows the WRITEs that arrived.
            end.open.write_at(0, &vec![0; size])?;
            link.barrier("ready")?;
            rows.extend(self.row(&mut link, &mut end, &work, size)?);
        }
        link.barrier("done")?;
        Ok((self.role == Role::Client).then(|| self.report(rows)))
    }

    pub fn report(&self, rows: Vec<Row>) -> Report {
        Report::new(self.options, self.context, self.mtu, rows)
    }

    /// Creates the queue pair in INIT with its receives, and at least `open` bytes that the peer
    /// may access.
    pub fn prepare<T: Connect, R: Issues>(&self, open: usize) -> Result<Ready<T, R>> {
        let options = self.options;
        let attr = self.context.query_device()?;
        let pd = self.context.alloc_pd()?;
        let receives = if options.verb == Verb::Send { options.rx_depth } else { 0 };
        // Room for the depths, and for one more send for a drain.
        let cq = self.context.create_cq(options.tx_depth + 1 + receives)?;
        let depth = Depth { send: options.tx_depth, recv: receives };
        let qp = pd.create_qp::<T, Perf<R>>(&cq, &cq, depth)?;
        let mut qp = T::init(qp, &self.way(&pd)?)?;

        let size = self.sizes.last().copied().unwrap_or(1);
        let open = pd.register::<RemoteAll>(open.max(size).max(8))?;
        let sends = pd.create_pool(options.tx_depth as usize, size)?;
        let spare = std::iter::from_fn(|| sends.take()).collect();
        if receives > 0 {
            let pool = pd.create_pool(receives as usize, GRH_LEN + size)?;
            while let Some(buf) = pool.take() {
                qp.post_recv(wr::Recv::new(buf))?;
            }
        }

        let random = RandomState::new().hash_one(qp.qp_num()) as u32;
        let mine = Endpoint {
            lid: self.source.attr.lid,
            gid: self.source.gid,
            qpn: Qpn::try_from(qp.qp_num())?,
            // Random, so that packets of an earlier run are not accepted.
            psn: Psn::try_from(random & Psn::MAX.get())?,
            rd_atomic: some(attr.max_qp_rd_atom),
            open: open.remote(),
        };
        Ok(Ready { pd, qp, cq, open, spare, mine })
    }

    fn way<'w>(&'w self, pd: &'w ProtectionDomain) -> Result<Way<'w>> {
        let outs = match self.options.outs {
            Some(outs) => outs,
            None => some(self.context.query_device()?.max_qp_init_rd_atom),
        };
        let qkey = if self.options.rdma_cm { RDMA_UDP_QKEY } else { Qkey::try_from(QKEY)? };
        Ok(Way { pd, source: &self.source, port: self.options.ib_port, mtu: self.mtu, outs, qkey })
    }

    /// Connects it and moves it to RTS. Also returns the destination of datagrams.
    pub fn connect<T: Connect, R: Issues>(
        &self,
        ready: Ready<T, R>,
        peer: &Endpoint,
    ) -> Result<(End<T, R>, Option<wr::Destination>)> {
        let Ready { pd, qp, cq, open, spare, mine } = ready;
        let way = self.way(&pd)?;
        let mut qp = T::connect(qp, &way, &mine, peer)?;
        let to = T::destination(&mut qp, &way, peer)?;
        Ok((self.end(qp, cq, open, spare), to))
    }

    /// Connects one through rdma_cm. Also returns the data that the peer needs about it.
    pub fn meet<T: Connect, R: Issues>(&self, meeting: &Meeting, open: usize) -> Result<Met<T, R>> {
        until(|| {
            let Ready { pd, qp, cq, open, spare, mine } = self.prepare::<T, R>(open)?;
            let met = T::meet(qp, meeting, &self.way(&pd)?, &mine)?;
            Ok(met.map(|(qp, kept)| Met { end: self.end(qp, cq, open, spare), pd, mine, kept }))
        })
    }

    /// The destination of datagrams.
    pub fn destination<T: Connect, R: Issues>(
        &self,
        met: &mut Met<T, R>,
        peer: &Endpoint,
    ) -> Result<Option<wr::Destination>> {
        T::destination(&mut met.end.qp, &self.way(&met.pd)?, peer)
    }

    fn end<T: Connect, R: Issues>(
        &self,
        qp: QueuePair<T, Rts, Perf<R>>,
        cq: CompletionQueue,
        open: MemoryRegion<RemoteAll>,
        spare: Vec<Buf>,
    ) -> End<T, R> {
        let (stall, local) = (Stall::new(), self.options.local);
        End { qp, cq, open, spare, received: 0, local, stall }
    }

    fn row<T: Connect, W: Work<T>>(
        &self,
        link: &mut Link,
        end: &mut End<T, W::Issues>,
        work: &W,
        size: usize,
    ) -> Result<Option<Row>> {
        let options = self.options;
        if options.lat {
            return self.latency(end, work, size, self.role == Role::Client);
        }
        let sends = options.verb == Verb::Send;
        match self.role {
            Role::Client => {
                let time = self.bandwidth(end, work, size)?;
                link.send(&json!("sent"))?;
                let arrived = link.recv()?.as_u64().ok_or("the server did not count")?;
                let arrived = if sends { arrived } else { options.iters.into() };
                Ok(Some(Row::bandwidth(size, options.iters, Some(arrived), time)))
            }
            Role::Server => {
                let sent = link.watch()?;
                // The device does all the work, but the loopback device works only inside verbs.
                let mut arrived = 0;
                let mut said = false;
                if sends {
                    arrived = bandwidth::receive(end, options.iters.into(), || {
                        said = said || is_said(&sent)?;
                        Ok(said)
                    })?;
                }
                if !said {
                    sent.recv()??;
                }
                link.send(&json!(arrived))?;
                Ok(None)
            }
        }
    }

    /// Runs exchanges of `size` bytes, each started by this end or by the other.
    pub fn latency<T: Connect, W: Work<T>>(
        &self,
        end: &mut End<T, W::Issues>,
        work: &W,
        size: usize,
        starts: bool,
    ) -> Result<Option<Row>> {
        let bar = bar(self.options, self.role, size);
        let inline = size <= self.options.inline_size as usize;
        let samples = latency::exchange(end, work, self.options, starts, size, inline, &bar)?;
        bar.finish_and_clear();
        Ok(Latencies::new(samples).map(|all| Row::latency(size, self.options.iters, all)))
    }

    /// Measures the client's work requests of `size` bytes.
    pub fn bandwidth<T: Connect, W: Work<T>>(
        &self,
        end: &mut End<T, W::Issues>,
        work: &W,
        size: usize,
    ) -> Result<Duration> {
        let bar = bar(self.options, self.role, size);
        let bytes = vec![0xa5; size];
        let inline = (size <= self.options.inline_size as usize).then_some(&bytes[..]);
        let time = bandwidth::client(end, work, self.options, size, inline, &bar)?;
        bar.finish_and_clear();
        Ok(time)
    }
}

/// The number of READs and atomics in flight, limited by the device's maximum.
fn some(limit: u32) -> u8 {
    limit.min(16) as u8
}

/// Whether the peer has reported that it is done.
fn is_said(word: &Receiver<std::result::Result<Value, String>>) -> Result<bool> {
    match word.try_recv() {
        Ok(word) => Ok(word.map(|_| true)?),
        Err(TryRecvError::Empty) => Ok(false),
        Err(TryRecvError::Disconnected) => Err("the client is gone".into()),
    }
}

/// The options that must be the same at both ends.
fn test(options: &Options) -> Value {
    json!({
        "verb": name(options.verb),
        "connection": name(options.connection),
        "lat": options.lat,
        "size": options.size,
        "all": options.all,
        "iters": options.iters,
    })
}

fn agree(mine: &Value, theirs: &Value) -> Result<()> {
    let all = mine.as_object().into_iter().flatten();
    let differ: Vec<String> = all
        .filter(|(key, value)| theirs[key.as_str()] != **value)
        .map(|(key, value)| format!("{key} {value} here, {} there", theirs[key.as_str()]))
        .collect();
    if differ.is_empty() {
        return Ok(());
    }
    Err(format!("the two ends have different options: {}", differ.join("; ")).into())
}

/// The client's progress bar, if output goes to a terminal.
fn bar(options: &Options, role: Role, size: usize) -> ProgressBar {
    if role == Role::Server {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(options.iters.into()).with_message(format!("{size} bytes"));
    match ProgressStyle::with_template("{msg:>14} [{bar:40}] {pos}/{len} ({elapsed})") {
        Ok(style) => bar.with_style(style.progress_chars("=> ")),
        Err(_) => bar,
    }
}
