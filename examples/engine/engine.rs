//! The engine: what the threads of the application call.

use std::net::{IpAddr, SocketAddr};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use anyhow::{Result, ensure};
use proverbs::{cm::EventChannel, prelude::*};

use crate::batch::{Op, Peer, Reason, Ticket, split};
use crate::worker::{Command, Worker};
use crate::{Region, service::Service};

/// The sizes of an engine.
#[derive(Clone, Copy)]
pub struct Settings {
    /// Queue pairs of a peer, on all devices together.
    pub queue_pairs: usize,
    /// Work requests of a queue pair.
    pub depth: u32,
    /// Work requests of all queue pairs of a device together: the entries of its completion queue.
    pub budget: u32,
    /// Bytes of the longest work request. Longer operations are split.
    pub longest: usize,
    /// The time until a failed peer is connected again: at first, and at most. Each failed attempt
    /// doubles it.
    pub backoff: [Duration; 2],
}

impl Default for Settings {
    fn default() -> Self {
        let backoff = [Duration::from_millis(10), Duration::from_secs(5)];
        Settings { queue_pairs: 4, depth: 32, budget: 2048, longest: 64 << 10, backoff }
    }
}

/// A change of a peer, on the device with this number: the address and the length of the peer's
/// memory, once all queue pairs are connected, or why they have ended.
pub type Notice = (Peer, usize, Result<(u64, u64), Reason>);

/// Dropping it ends its threads. Batches that have not ended fail.
pub struct Engine {
    /// One for each device. It ends when its commands do.
    workers: Vec<(Sender<Command>, Service)>,
    longest: usize,
    peers: Mutex<usize>,
    /// The worker of the next batch's first part.
    turn: AtomicUsize,
}

impl Engine {
    /// Starts a worker for each of `devices`, which are addresses of network devices. `open` opens
    /// an event channel, and `register` registers the application's memory; each is called once for
    /// each device. The receiver gets the changes of all peers.
    pub fn new(
        settings: Settings,
        devices: &[IpAddr],
        open: &dyn Fn() -> Result<EventChannel, proverbs::Error>,
        register: &dyn Fn(&ProtectionDomain) -> Result<Region>,
    ) -> Result<(Engine, Receiver<Notice>)> {
        let count = devices.len();
        ensure!(count > 0 && settings.queue_pairs >= count, "each device needs a queue pair");
        let (notices, noticed) = channel();
        let start = |(device, &from)| {
            let from = SocketAddr::new(from, 0);
            let lanes = (settings.queue_pairs + count - 1 - device) / count;
            Worker::start(settings, (device, from, lanes), open()?, register, notices.clone())
        };
        let workers = devices.iter().enumerate().map(start).collect::<Result<_>>()?;
        let (longest, peers, turn) = (settings.longest, Mutex::new(0), AtomicUsize::new(0));
        Ok((Engine { workers, longest, peers, turn }, noticed))
    }

    /// Adds a peer and begins to connect. Device n connects to address n, or, if there are fewer
    /// addresses, begins again with the first.
    pub fn add_peer(&self, at: &[SocketAddr]) -> Peer {
        // Locked until each worker has the command, so that all number the peers in this order.
        let mut peers = self.peers.lock().expect("no panic while it is locked");
        for worker in 0..self.workers.len() {
            self.send(worker, Command::Connect(at[worker % at.len()]));
        }
        *peers += 1;
        Peer(*peers - 1)
    }

    /// Starts a batch. Any thread may call this, and it does not wait. The parts of the batch are
    /// spread over the devices.
    ///
    /// The batch waits for a peer that is being connected, and fails if that fails. While the peer
    /// is down on one of the devices, it fails at once.
    pub fn submit(&self, peer: Peer, ops: &[Op]) -> Ticket {
        let count = self.workers.len();
        let (ticket, shares) = split(peer, ops, self.longest, count);
        let first = self.turn.fetch_add(1, Ordering::Relaxed);
        for (n, share) in shares.into_iter().enumerate().filter(|(_, share)| !share.is_empty()) {
            self.send(first.wrapping_add(n) % count, Command::Copy(peer, share));
        }
        ticket
    }

    fn send(&self, worker: usize, command: Command) {
        let (commands, service) = &self.workers[worker];
        // A worker that has failed drops the command, and that fails its parts.
        let _ = commands.send(command);
        service.waker.wake();
    }
}
