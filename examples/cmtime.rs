//! Measures the time of each step of connecting, for many connections at once, like rdma-core's
//! `cmtime` (up to rdma-core 51; newer versions also synchronize each step over TCP).
//!
//! ```text
//! cmtime [-b ADDRESS]                                # the server, until it is killed
//! cmtime -s ADDRESS [-b ADDRESS] [-c CONNECTIONS]    # the client; either may be rdma-core's
//! ```

#![forbid(unsafe_code)]

mod cm_common;

use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use bpaf::Bpaf;
use cm_common::{BACKLOG, Result, STEP, address, report};
use proverbs::cm::{
    AcceptParam, Accepted, CmId, ConnParam, Connection, Event, EventChannel, EventKind, HasDevice,
    IdKey, OnChannel, Pending, Progress, Tcp,
};
use proverbs::prelude::*;
use proverbs::state::Init;

/// Times of each step of rdma_cm, for many connections at once
#[derive(Bpaf)]
#[bpaf(options, version)]
struct Options {
    /// Address of the server; without it, this is the server
    #[bpaf(short('s'), argument("ADDRESS"))]
    server: Option<String>,
    /// Address of this end [default: any]
    #[bpaf(short('b'), argument("ADDRESS"))]
    bind: Option<String>,
    /// Connections
    #[bpaf(
        short('c'), argument("CONNECTIONS"), fallback(100), display_fallback,
        guard(|n| (1..=10_000).contains(n), "must be from 1 to 10000")
    )]
    connections: u32,
    /// Port to listen on or to connect to
    #[bpaf(short('p'), argument("PORT"), fallback(7471), display_fallback)]
    port: u16,
    /// Timeout of resolving an address or a route, in milliseconds
    #[bpaf(short('t'), argument("MILLISECONDS"), fallback(2000), display_fallback)]
    timeout: u64,
}

fn main() -> ExitCode {
    let options = options().run();
    let result = match &options.server {
        Some(server) => client(server, &options),
        None => server(&options),
    };
    report("cmtime", result)
}

/// The objects for queue pairs on each device.
struct Queues {
    /// The maximum number of queue pairs at the same time on each device.
    most: u32,
    of: HashMap<String, (ProtectionDomain, CompletionQueue)>,
}

impl Queues {
    fn new(most: u32) -> Queues {
        Queues { most, of: HashMap::new() }
    }

    /// The smallest possible queue pair, because nothing is sent.
    fn queue_pair<S: HasDevice>(
        &mut self,
        id: &CmId<Tcp, S, OnChannel>,
    ) -> Result<QueuePair<Rc, Init>> {
        let device = id.device().unwrap_or_default();
        if !self.of.contains_key(device) {
            // A send, a receive, and an entry for a drain.
            let cq = id.context()?.create_cq(self.most * (1 + 1 + 1))?;
            self.of.insert(device.to_owned(), (id.pd()?, cq));
        }
        let (pd, cq) = self.of.get_mut(device).ok_or("no queues for the device")?;
        // Releases the entries of queue pairs that are gone.
        cq.poll()?.for_each(drop);
        Ok(id.create_qp::<DefaultProfile>(pd, cq, cq, Depth { send: 1, recv: 1 })?)
    }
}

/// Accepts all clients, and closes each connection when its client does.
fn server(options: &Options) -> Result<()> {
    let at = match &options.bind {
        Some(here) => address(here, options.port)?,
        None => (Ipv4Addr::UNSPECIFIED, options.port).into(),
    };
    let channel = EventChannel::new()?;
    let listening = channel.create_id::<Tcp>()?.bind_addr(at)?.listen(BACKLOG)?;
    let mut accepted: HashMap<IdKey, Accepted> = HashMap::new();
    let mut connected: HashMap<IdKey, Connection<DefaultProfile, OnChannel>> = HashMap::new();
    let (mut queues, mut served) = (Queues::new(BACKLOG), 0);
    loop {
        let event = channel.wait()?;
        let key = event.id();
        if event.kind() == EventKind::ConnectRequest {
            let request = listening.request(event).map_err(|event| format!("{event:?}"))?;
            let qp = queues.queue_pair(&request.id)?;
            let key = request.id.key();
            accepted.insert(key, request.accept(qp, &AcceptParam::default())?);
        } else if let Some(this) = accepted.remove(&key) {
            match this.advance(&event) {
                Progress::Done(connection) => drop(connected.insert(key, connection)),
                Progress::Waiting(this) => drop(accepted.insert(key, this)),
                // The next client may succeed.
                Progress::Failed(refused) => eprintln!("cmtime: {refused}"),
            }
        } else if let Some(this) = connected.remove(&key) {
            match this.advance(&event) {
                Progress::Done(_) => served += 1,
                Progress::Waiting(this) => drop(connected.insert(key, this)),
                Progress::Failed(refused) => eprintln!("cmtime: {refused}"),
            }
            if accepted.is_empty() && connected.is_empty() {
                println!("cmtime: {served} connections served");
            }
        }
    }
}

fn client(server: &str, options: &Options) -> Result<()> {
    let (to, timeout) = (address(server, options.port)?, Duration::from_millis(options.timeout));
    let channel = &EventChannel::new()?;
    let mut times = Times::default();

    let ids = (0..options.connections).collect();
    let ids = times.each("create id", ids, |_| Ok(channel.create_id::<Tcp>()?))?;
    let ids = match &options.bind {
        None => times.all(
            "resolve addr",
            channel,
            ids,
            |id| keyed(id.resolve_addr(to, timeout)?, CmId::key),
            |id, event| id.advance(event),
        )?,
        Some(here) => {
            let here = address(here, 0)?;
            let ids = times.each("bind addr", ids, |id| Ok(id.bind_addr(here)?))?;
            times.all(
                "resolve addr",
                channel,
                ids,
                |id| keyed(id.resolve_addr(to, timeout)?, CmId::key),
                |id, event| id.advance(event),
            )?
        }
    };
    let ids = times.all(
        "resolve route",
        channel,
        ids,
        |id| keyed(id.resolve_route(timeout)?, CmId::key),
        |id, event| id.advance(event),
    )?;
    let mut queues = Queues::new(options.connections);
    let ends = times.each("create qp", ids, |id| Ok((queues.queue_pair(&id)?, id)))?;
    let connections = times.all(
        "connect",
        channel,
        ends,
        |(qp, id)| keyed(id.connect(qp, &ConnParam::default())?, |pending| pending.id().key()),
        Pending::advance,
    )?;
    let ids = times.all(
        "disconnect",
        channel,
        connections,
        // Drops its queue pair.
        |connection| keyed(connection.disconnect()?.id, CmId::key),
        |id, event| id.advance(event),
    )?;
    times.each("destroy", ids, |id| Ok(id.destroy()?))?;
    times.print();
    Ok(())
}

/// An object that waits for an event, and the key by which events name it.
fn keyed<W>(waits: W, key: impl Fn(&W) -> IdKey) -> Result<(IdKey, W)> {
    Ok((key(&waits), waits))
}

/// The time of each step, for all connections together and for each.
#[derive(Default)]
struct Times(Vec<(&'static str, Duration, Vec<Duration>)>);

impl Times {
    /// A step that is complete when its call returns.
    fn each<A, D>(
        &mut self,
        name: &'static str,
        these: Vec<A>,
        mut step: impl FnMut(A) -> Result<D>,
    ) -> Result<Vec<D>> {
        let (began, mut each) = (Instant::now(), Vec::new());
        let mut done = Vec::new();
        for this in these {
            let began = Instant::now();
            done.push(step(this)?);
            each.push(began.elapsed());
        }
        self.0.push((name, began.elapsed(), each));
        Ok(done)
    }

    /// A step that is started for all connections, and complete for each when its event arrives.
    fn all<A, W, D, F>(
        &mut self,
        name: &'static str,
        channel: &EventChannel,
        these: Vec<A>,
        begin: impl Fn(A) -> Result<(IdKey, W)>,
        advance: impl Fn(W, &Event) -> Progress<D, W, F>,
    ) -> Result<Vec<D>> {
        let (began, mut each) = (Instant::now(), Vec::new());
        let (mut waiting, mut done) = (HashMap::new(), Vec::new());
        let mut these = these.into_iter().fuse();
        loop {
            let next = these.next();
            let is_begun = next.is_none();
            if let Some(this) = next {
                let began = Instant::now();
                let (key, waits) = begin(this)?;
                waiting.insert(key, (began, waits));
            }
            // Takes finished steps between the calls, so that their times are accurate.
            let event = match is_begun {
                true if waiting.is_empty() => break,
                true => {
                    Some(channel.wait_timeout(*STEP)?.ok_or_else(|| format!("{name}: no event"))?)
                }
                false => channel.try_event()?,
            };
            let Some(event) = event else { continue };
            let Some((began, waits)) = waiting.remove(&event.id()) else { continue };
            match advance(waits, &event) {
                Progress::Waiting(waits) => drop(waiting.insert(event.id(), (began, waits))),
                Progress::Failed(refused) => return Err(refused.error.into()),
                Progress::Done(one) => {
                    each.push(began.elapsed());
                    done.push(one);
                }
            }
        }
        self.0.push((name, began.elapsed(), each));
        Ok(done)
    }

    fn print(&self) {
        println!("step              total ms     max ms     min us  us / conn");
        for (name, total, each) in &self.0 {
            let us = |time: Duration| time.as_secs_f64() * 1e6;
            let (max, min) = (each.iter().max(), each.iter().min());
            let (total, max, min) =
                (us(*total), max.copied().map_or(0.0, us), min.copied().map_or(0.0, us));
            println!(
                "{name:13}: {:11.2}{:11.2}{min:11.2}{:11.2}",
                total / 1e3,
                max / 1e3,
                total / each.len() as f64
            );
        }
    }
}
