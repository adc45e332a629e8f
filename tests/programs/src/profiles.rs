//! Profiles other than DefaultProfile, contexts and iterators that panic, and slow peers.

use std::cell::Cell;
use std::io::{self, Read, Write};
use std::thread;
use std::time::Duration;

use proverbs::endpoint::{Endpoint, Service, Timed, Timeouts};
use proverbs::ext::extended_posting::ExtendedPosting;
use proverbs::memory::{CanBeSlices, CanBeWritten, Pages};
use proverbs::prelude::*;

use crate::connect::{psn, qpn};
use crate::own::Own;
use crate::world::{World, lock, planned};

profile! { pub Ring { signaling: Selective } }
// In sessions, with all operations.
profile! { pub Direct { posting: ExtendedPosting<(ext::persistence::Flush, ext::persistence::AtomicWrite)> } }
profile! { pub Served { receive: SharedRq } }
profile! { pub ServedRing { receive: SharedRq, signaling: Selective } }
profile! { pub Lists { entry: BufList, max_send_sge: 3, max_recv_sge: 3 } }
profile! { pub Mixed { entry: AnyBuf, max_send_sge: 3, max_recv_sge: 2 } }
profile! { pub MixedRing { entry: AnyBuf, signaling: Selective, max_send_sge: 3, max_recv_sge: 2 } }
// More than any device has.
profile! { pub Huge { entry: BufList, max_send_sge: 0x1_0000_0000 } }
profile! { pub Noisy { entry: Buf<Loud> } }
profile! { pub NoisyRing { entry: Buf<Loud>, signaling: Selective } }

/// A context that panics when it is dropped, if so configured.
pub struct Loud(bool);

impl Drop for Loud {
    fn drop(&mut self) {
        if self.0 && !thread::panicking() {
            planned();
        }
    }
}

/// An iterator that panics when it is dropped.
pub struct EndsLoudly<I>(pub I);

impl<I: Iterator> Iterator for EndsLoudly<I> {
    type Item = I::Item;

    fn next(&mut self) -> Option<I::Item> {
        self.0.next()
    }
}

impl<I> Drop for EndsLoudly<I> {
    fn drop(&mut self) {
        if !thread::panicking() {
            planned();
        }
    }
}

pub type LoudBuf = Buf<Loud>;
pub type LoudPool = Pool<Loud>;
/// An arena whose buffers have such contexts.
pub type LoudArena<M> = Arena<Loud, M>;

impl World {
    /// A pool with contexts: its buffers are counted like those of other pools, or its contexts
    /// panic.
    pub fn loud(&self, pd: &ProtectionDomain, is_loud: bool) -> Option<LoudPool> {
        let pool = pd.pool(64).contexts(|_| Loud(is_loud)).create(3).ok()?;
        if !is_loud {
            lock(&self.loud_pools).push(pool.clone());
        }
        Some(pool)
    }

    /// Like `loud`, with buffers of any length.
    pub fn loud_arena(&self, pd: &ProtectionDomain, is_loud: bool) -> Option<LoudArena<Pages>> {
        let arena = pd.arena(4).contexts(|_| Loud(is_loud)).create(1024).ok()?;
        if !is_loud {
            lock(&self.loud_arenas).push(arena.clone());
        }
        Some(arena)
    }

    /// An arena with contexts in memory that is returned with it, or with the error.
    pub fn loud_arena_in<M: Own>(
        &self,
        pd: &ProtectionDomain,
        memory: M,
        buffers: usize,
        is_loud: bool,
    ) -> (Option<LoudArena<M>>, Option<M>)
    where
        M::Sharing: CanBeSlices,
        M::Protection: CanBeWritten,
    {
        match pd.arena(buffers).contexts(|_| Loud(is_loud)).create_in(memory) {
            Ok(arena) => (Some(arena), None),
            Err(refused) => (None, Some(refused.into_object())),
        }
    }

    /// An endpoint without a peer.
    pub fn endpoint(&self) -> Option<Endpoint> {
        Endpoint::new(Service::UnreliableConnection, qpn(17), psn(), Mtu::Bytes1024).ok()
    }

    /// A peer that sends an endpoint's bytes one by one, or nothing.
    pub fn peer(&self, speaks: bool) -> Peer {
        let says = self.endpoint().filter(|_| speaks).map(|it| it.to_bytes());
        Peer { says: says.unwrap_or_default(), at: 0, slow: true, timeouts: Cell::default() }
    }

    /// A peer that sends an endpoint and a last word.
    pub fn told(&self, endpoint: &Endpoint, last: &[u8], slow: bool) -> Peer {
        let says = [&endpoint.to_bytes()[..], last].concat();
        Peer { says, at: 0, slow, timeouts: Cell::default() }
    }
}

/// A stream whose other end may be slow: a byte arrives shortly before the reader would give up.
pub struct Peer {
    says: Vec<u8>,
    at: usize,
    slow: bool,
    timeouts: Cell<Timeouts>,
}

impl Read for Peer {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let time = self.timeouts.get().read.unwrap_or(Duration::from_secs(1));
        let (Some(byte), Some(to)) = (self.says.get(self.at), into.first_mut()) else {
            thread::sleep(time);
            return Err(io::ErrorKind::TimedOut.into());
        };
        if self.slow {
            thread::sleep(time.mul_f32(0.9));
        }
        self.at += 1;
        *to = *byte;
        Ok(1)
    }
}

impl Write for Peer {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        Ok(from.len().min(1))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Timed for Peer {
    fn timeouts(&self) -> io::Result<Timeouts> {
        Ok(self.timeouts.get())
    }

    fn set_timeouts(&self, timeouts: Timeouts) -> io::Result<()> {
        self.timeouts.set(timeouts);
        Ok(())
    }
}
