//! Read-only buffers with several handles.

#![allow(unsafe_code)] // reads bytes that several handles lend

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use crate::memory::buf::Buf;
use crate::memory::header::Handle;
use crate::memory::lent::{Lent, lend};

/// A read-only buffer that may be posted several times at once. It is a legal source of SEND and
/// RDMA WRITE, so one log entry goes to three followers without a copy.
///
/// Cloning allocates a small header; posting and completing do not. When the last clone is gone,
/// the buffer goes back to its pool.
///
/// [`Buf::freeze`](crate::Buf::freeze) makes it (R11.1).
///
/// ```
/// # use proverbs::prelude::*;
/// profile! { Fanout { entry: SharedBuf } }
///
/// # let proverbs::loopback::Pair { mut a, b: _b, mut cq, pool, pd, .. } = proverbs::loopback::pair_of::<Fanout>()?;
/// let mut record = pool.take().ok_or("no buffer")?;
/// record.copy_from(b"log entry")?;
/// let record: SharedBuf = record.freeze();
/// # let region = pd.register::<RemoteWrite>(256)?;
/// # let follower = region.remote().write();
/// a.post_send(wr::RdmaWrite::new(record.clone(), follower))?; // to this one ...
/// a.post_send(wr::RdmaWrite::new(record.clone(), follower))?; // ... and that
/// assert_eq!(&record[..], b"log entry"); // still readable meanwhile
/// # proverbs::loopback::poll(&mut cq, 2)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
#[repr(transparent)]
pub struct SharedBuf(pub(crate) Lent);

impl SharedBuf {
    pub(crate) fn new<C: Send + Sync>(buf: Buf<C>) -> Self {
        let header = buf.header();
        let (addr, len, lkey, pd) = (header.addr(), header.len(), header.lkey(), header.pd());
        SharedBuf(lend(Arc::new(buf), addr, len, lkey, pd))
    }
}

impl Deref for SharedBuf {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        let header = self.header();
        // SAFETY: the memory is initialised, and nothing writes to it: the exclusive handle is
        // inside the home of this one, out of reach.
        unsafe { std::slice::from_raw_parts(header.addr(), header.capacity() as usize) }
    }
}

impl fmt::Debug for SharedBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SharedBuf({} bytes)", self.len())
    }
}
