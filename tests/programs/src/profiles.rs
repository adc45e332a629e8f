//! Profiles that DefaultProfile is not, contexts that panic, and slow peers.

use std::cell::Cell;
use std::io::{self, Read, Write};
use std::thread;
use std::time::Duration;

use proverbs::endpoint::{Endpoint, Service, Timed, Timeouts};
use proverbs::prelude::*;

use crate::connect::{psn, qpn};
use crate::world::{World, lock, planned};

profile! { pub Ring { signaling: Selective } }
profile! { pub Served { receive: SharedRq } }
profile! { pub ServedRing { receive: SharedRq, signaling: Selective } }
profile! { pub Lists { entry: BufList, max_send_sge: 3, max_recv_sge: 3 } }
profile! { pub Mixed { entry: AnyBuf, max_send_sge: 3, max_recv_sge: 2 } }
profile! { pub MixedRing { entry: AnyBuf, signaling: Selective, max_send_sge: 3, max_recv_sge: 2 } }
// More than any device has.
profile! { pub Huge { entry: BufList, max_send_sge: 0x1_0000_0000 } }
profile! { pub Noisy { entry: Buf<Loud> } }
profile! { pub NoisyRing { entry: Buf<Loud>, signaling: Selective } }

/// A context that panics when it is dropped, if it is to.
pub struct Loud(bool);

impl Drop for Loud {
    fn drop(&mut self) {
        if self.0 && !thread::panicking() {
            planned();
        }
    }
}

pub type LoudBuf = Buf<Loud>;
pub type LoudPool = Pool<Loud>;

impl World {
    /// A pool of contexts: its buffers are counted as those of other pools, or its contexts panic.
    pub fn loud(&self, pd: &ProtectionDomain, is_loud: bool) -> Option<LoudPool> {
        let pool = pd.create_pool_with(3, 64, |_| Loud(is_loud)).ok()?;
        if !is_loud {
            lock(&self.loud_pools).push(pool.clone());
        }
        Some(pool)
    }

    /// An endpoint that nobody is at.
    pub fn endpoint(&self) -> Option<Endpoint> {
        Endpoint::new(Service::UnreliableConnection, qpn(17), psn(), Mtu::Bytes1024).ok()
    }

    /// A peer that says what an endpoint's would, byte by byte, or nothing.
    pub fn peer(&self, speaks: bool) -> Peer {
        let says = self.endpoint().filter(|_| speaks).map(|it| it.to_bytes());
        Peer { says: says.unwrap_or_default(), at: 0, timeouts: Cell::default() }
    }
}

/// A stream whose other end takes its time: a byte comes shortly before whoever waits would give up.
pub struct Peer {
    says: Vec<u8>,
    at: usize,
    timeouts: Cell<Timeouts>,
}

impl Read for Peer {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let time = self.timeouts.get().read.unwrap_or(Duration::from_secs(1));
        let (Some(byte), Some(to)) = (self.says.get(self.at), into.first_mut()) else {
            thread::sleep(time);
            return Err(io::ErrorKind::TimedOut.into());
        };
        thread::sleep(time.mul_f32(0.9));
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
