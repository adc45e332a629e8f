//! One end from its device to its results.

use std::hash::{BuildHasher, RandomState};

use indicatif::{ProgressBar, ProgressStyle};
use proverbs::completion::GRH_LEN;
use proverbs::prelude::*;
use serde_json::{Value, json};

use crate::connect::{Connect, Endpoint, Perf, Way};
use crate::device::{self, Source};
use crate::end::{End, Stall};
use crate::link::Link;
use crate::options::{Connection, Options, Verb, name};
use crate::report::{Report, Row};
use crate::stats::Latencies;
use crate::work::{Adds, Datagrams, ReadsOf, Sends, Swaps, Work, Writes};
use crate::{Result, Role, bandwidth, latency};

/// Runs this end; the client has a report.
pub fn run(options: &Options, context: &Context, link: Link, role: Role) -> Result<Option<Report>> {
    let station = Station::new(options, context, link, role)?;
    match (options.connection, options.verb) {
        (Connection::Rc, Verb::Send) => station.measure::<Rc, _>(|_, _| Ok(Sends)),
        (Connection::Rc, Verb::Write) => station.measure::<Rc, _>(|open, _| Ok(Writes(open))),
        (Connection::Rc, Verb::Read) => station.measure::<Rc, _>(|open, _| Ok(ReadsOf(open))),
        (Connection::Rc, Verb::FetchAdd) => {
            station.measure::<Rc, _>(|open, _| Ok(Adds(open.atomic(0)?)))
        }
        (Connection::Rc, Verb::CmpSwp) => {
            station.measure::<Rc, _>(|open, _| Ok(Swaps(open.atomic(0)?)))
        }
        (Connection::Uc, Verb::Send) => station.measure::<Uc, _>(|_, _| Ok(Sends)),
        (Connection::Uc, Verb::Write) => station.measure::<Uc, _>(|open, _| Ok(Writes(open))),
        (Connection::Ud, Verb::Send) => {
            station.measure::<Ud, _>(|_, to| Ok(Datagrams(to.ok_or("UD has a destination")?)))
        }
        // `Options::check` refused them.
        (connection, _) => Err(format!("{} does not carry that", name(connection)).into()),
    }
}

struct Station<'a> {
    options: &'a Options,
    context: &'a Context,
    link: Link,
    role: Role,
    source: Source,
    mtu: Mtu,
    sizes: Vec<usize>,
}

impl<'a> Station<'a> {
    fn new(
        options: &'a Options,
        context: &'a Context,
        link: Link,
        role: Role,
    ) -> Result<Station<'a>> {
        let gid = options.gid_index.or(options.local.then_some(1));
        let source = device::source(context, options.ib_port, gid)?;
        let active = source.attr.active_mtu.unwrap_or(Mtu::Bytes1024);
        let mtu = options.mtu.unwrap_or(active);
        if mtu > active {
            let (mtu, active) = (mtu.bytes(), active.bytes());
            return Err(format!("path MTU {mtu} exceeds the port's {active}: -m {active}").into());
        }
        let sizes = options.sizes(mtu)?;
        Ok(Station { options, context, link, role, source, mtu, sizes })
    }

    fn measure<T: Connect, W: Work<T>>(
        mut self,
        work: impl FnOnce(RemoteSlice<RemoteAll>, Option<wr::Destination>) -> Result<W>,
    ) -> Result<Option<Report>> {
        let (mut end, work) = self.connect::<T, W>(work)?;
        let mut rows = Vec::new();
        for size in self.sizes.clone() {
            // The region says what arrived: nothing has.
            end.open.write_at(0, &vec![0; size])?;
            self.link.barrier("ready")?;
            rows.extend(self.row(&mut end, &work, size)?);
        }
        self.link.barrier("done")?;
        let report = || Report::new(self.options, self.context, self.mtu, rows);
        Ok((self.role == Role::Client).then(report))
    }

    fn connect<T: Connect, W: Work<T>>(
        &mut self,
        work: impl FnOnce(RemoteSlice<RemoteAll>, Option<wr::Destination>) -> Result<W>,
    ) -> Result<(End<T>, W)> {
        let options = self.options;
        let attr = self.context.query_device()?;
        let pd = self.context.alloc_pd()?;
        let receives = if options.verb == Verb::Send { options.rx_depth } else { 0 };
        // Depths are booked here, and one send more for a drain.
        let cq = self.context.create_cq(options.tx_depth + 1 + receives)?;
        let depth = Depth { send: options.tx_depth, recv: receives };
        let mut qp = T::init(pd.create_qp::<T, Perf>(&cq, &cq, depth)?, options.ib_port)?;

        let size = self.sizes.last().copied().unwrap_or(1);
        let open = pd.register::<RemoteAll>(size.max(8))?;
        let sends = pd.create_pool(options.tx_depth as usize, size)?;
        let spare = std::iter::from_fn(|| sends.take()).collect();
        if receives > 0 {
            let pool = pd.create_pool(receives as usize, GRH_LEN + size)?;
            while let Some(buf) = pool.take() {
                qp.post_recv(wr::Recv::new(buf))?;
            }
        }

        let most = |limit: u32| limit.min(16) as u8;
        let random = RandomState::new().hash_one(qp.qp_num()) as u32;
        let mine = Endpoint {
            lid: self.source.attr.lid,
            gid: self.source.gid,
            qpn: Qpn::try_from(qp.qp_num())?,
            // Packets of an earlier run cannot pass for ours.
            psn: Psn::try_from(random & Psn::MAX.get())?,
            rd_atomic: most(attr.max_qp_rd_atom),
            open: open.remote().to_bytes(),
        };
        self.link.send(&json!({ "test": test(options), "endpoint": mine.json() }))?;
        let hello = self.link.recv()?;
        agree(&test(options), &hello["test"])?;
        let peer = Endpoint::from_json(&hello["endpoint"])?;

        let outs = options.outs.unwrap_or(most(attr.max_qp_init_rd_atom));
        let way = Way { pd: &pd, source: &self.source, port: options.ib_port, mtu: self.mtu, outs };
        let (qp, to) = T::connect(qp, &way, &mine, &peer)?;
        let theirs = RemoteSlice::from_bytes(&peer.open).ok_or("the peer's region lacks rights")?;
        let stall = Stall::new();
        let local = options.local;
        Ok((End { qp, cq, open, spare, received: 0, local, stall }, work(theirs, to)?))
    }

    fn row<T: Connect, W: Work<T>>(
        &mut self,
        end: &mut End<T>,
        work: &W,
        size: usize,
    ) -> Result<Option<Row>> {
        let (options, role) = (self.options, self.role);
        let inline = size <= options.inline_size as usize;
        let bar = bar(options, role, size);
        if options.lat {
            let samples = latency::exchange(end, work, options, role, size, inline, &bar)?;
            bar.finish_and_clear();
            return Ok(Latencies::new(samples).map(|all| Row::latency(size, all)));
        }
        let sends = options.verb == Verb::Send;
        match role {
            Role::Client => {
                let bytes = vec![0xa5; size];
                let inline = inline.then_some(&bytes[..]);
                let time = bandwidth::client(end, work, options, size, inline, &bar)?;
                bar.finish_and_clear();
                self.link.send(&json!("sent"))?;
                let arrived = self.link.recv()?.as_u64().ok_or("the server did not count")?;
                let arrived = if sends { arrived } else { options.iters.into() };
                Ok(Some(Row::bandwidth(size, options.iters, arrived, time)))
            }
            Role::Server => {
                let sent = self.link.watch()?;
                let arrived = match sends {
                    true => bandwidth::receive(end, options.iters.into(), &sent)?,
                    // The device does it all, but the loopback device works inside verbs only.
                    false => sent.recv()?.map(|_| 0)?,
                };
                self.link.send(&json!(arrived))?;
                Ok(None)
            }
        }
    }
}

/// What both ends must have been told alike.
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
    Err(format!("the two ends were told different things: {}", differ.join("; ")).into())
}

/// The client's progress, where a person sees it.
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
