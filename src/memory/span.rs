//! The target of an RDMA WRITE or the source of a READ, with or without an end.

use std::fmt;
use std::marker::PhantomData;

use crate::memory::remote::by_fields;
use crate::sys::data;

/// A range of the peer's memory: the bytes that an RDMA WRITE may write, or that a READ reads
/// (`RemoteSpan<ToRead>`). It can be created only from a slice with that right
/// ([R6.7](crate::guide::rules#r6-7)).
///
/// Posting a longer WRITE fails. A READ reads exactly these bytes and is rejected if they do not
/// fit its buffers. [`RemoteAddr`] is an address without an end.
///
/// ```
/// # use proverbs::prelude::*;
/// use proverbs::{memory::{ToRead, ToWrite}, post::PostErrorKind, wr::{ReadAddr, WriteAddr}};
/// let table = RemoteSlice::<RemoteReadWrite>::from_parts(0x7f00_0000, 4096, 0x1234);
/// let from: RemoteSpan<ToRead> = table.slice(64, 8)?.read();
/// let to: RemoteSpan<ToWrite> = table.slice(64, 8)?.write();
/// assert_eq!(format!("{from:?}"), format!("{to:?}"));
///
/// fn write(buf: Buf, to: impl WriteAddr) -> wr::WorkRequest<wr::RdmaWrite, Buf> {
///     wr::RdmaWrite::new(buf, to)
/// }
/// fn read(buf: Buf, from: impl ReadAddr) -> wr::WorkRequest<wr::RdmaRead, Buf> {
///     wr::RdmaRead::new(buf, from)
/// }
/// # let proverbs::loopback::Pair { mut a, pool, .. } = proverbs::loopback::pair()?;
/// let mut buf = pool.take().ok_or("no buffer")?;
/// buf.set_len(9);
/// let error = a.post_send(write(buf, to)).unwrap_err();
/// assert_eq!(error.kind(), PostErrorKind::ExceedsSlice { asked: 9, max: 8 });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct RemoteSpan<U = ToWrite> {
    /// The fields from `remote_addr` on in the layout of C, so that they are copied with one store.
    /// The padding contains the limit, for cold code: for a WRITE, the maximum number of bytes; for
    /// a READ, the number of bytes, or `READS_NOTHING`.
    pub(crate) c: [u64; 2],
    _use: PhantomData<U>,
}

/// An address in the peer's memory without an end, returned by [`RemoteSpan::start`].
///
/// It does not have the checks of a [`RemoteSpan`]: a WRITE writes all of its data there, and a
/// READ reads the number of bytes given by its buffers' lengths
/// ([`Buf::set_len`](crate::Buf::set_len)). If an access exceeds the peer's registered memory, the
/// peer's device rejects it and the connection fails ([R6.7](crate::guide::rules#r6-7)). Within
/// that memory it may overwrite other data of the peer. Use it in programs that check the bounds
/// themselves, as with C's `wr.rdma.remote_addr`.
///
/// ```
/// # use proverbs::prelude::*;
/// use proverbs::memory::{RemoteAddr, ToRead};
/// # let proverbs::loopback::Pair { mut a, b: _b, mut cq, pool, pd, .. } =
/// #     proverbs::loopback::pair()?;
/// let region = pd.register::<RemoteReadWrite>(64)?;
/// let header = region.remote().slice(0, 8)?;
/// let to: RemoteAddr = header.write().start();
/// // 25 bytes, 17 of them beyond the slice.
/// a.post_send(wr::RdmaWrite::inline(b"a header and what follows", to))?;
///
/// let from: RemoteAddr<ToRead> = header.read().start();
/// let mut buf = pool.take().ok_or("no buffer")?;
/// buf.set_len(25); // the length of the READ
/// a.post_send(wr::RdmaRead::new(buf, from))?;
/// let read = proverbs::loopback::poll(&mut cq, 2)?.remove(1).ok_or("a READ has a buffer")?;
/// assert_eq!(&read[..], b"a header and what follows");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct RemoteAddr<U = ToWrite>(pub(crate) RemoteSpan<U>);

/// For RDMA WRITE: the use of a [`RemoteSpan`] or a [`RemoteAddr`]
/// ([R6.7](crate::guide::rules#r6-7)).
#[derive(Debug)]
pub enum ToWrite {}
/// For RDMA READ: the use of a [`RemoteSpan`] or a [`RemoteAddr`]
/// ([R6.7](crate::guide::rules#r6-7)).
#[derive(Debug)]
pub enum ToRead {}

/// The limit of a READ of no bytes: more than any buffer holds. One comparison with the size of the
/// buffers detects both this case and bytes that do not fit, and leaves them to cold code.
pub(crate) const READS_NOTHING: u32 = u32::MAX;
/// The largest length of a handle is less, so the length of a handle never equals it.
pub(crate) use crate::terms::bounds::LONGEST_PIECE;
const _: () = assert!(LONGEST_PIECE == READS_NOTHING - 1);

/// The limit of a span without an end. The data of a WRITE is never longer (R3.5).
const NO_END: u32 = u32::MAX;

by_fields!(RemoteSpan<U>: c);
by_fields!(RemoteAddr<U>: 0);

impl RemoteSpan {
    /// The limit saturates at 32 bits, because a longer WRITE is always rejected (R3.5).
    #[inline(always)]
    pub(crate) fn to_write(addr: u64, rkey: u32, len: u64) -> Self {
        Self::new(addr, rkey, len.min(NO_END.into()) as u32)
    }
}

impl RemoteSpan<ToRead> {
    /// The limit saturates at 32 bits, because the buffers of one work request cannot hold more.
    #[inline(always)]
    pub(crate) fn to_read(addr: u64, rkey: u32, len: u64) -> Self {
        let longest = READS_NOTHING as u64 - 1;
        let limit = if len == 0 { READS_NOTHING } else { len.min(longest) as u32 };
        Self::new(addr, rkey, limit)
    }
}

impl<U> RemoteSpan<U> {
    #[inline(always)]
    fn new(addr: u64, rkey: u32, limit: u32) -> Self {
        RemoteSpan { c: [addr, data::rkey_and(rkey, limit)], _use: PhantomData }
    }

    pub(crate) fn rkey(&self) -> u32 {
        data::rkey_of(self.c)
    }

    /// Returns the start address without an end. See [`RemoteAddr`] for the checks that it lacks.
    #[inline(always)]
    pub fn start(self) -> RemoteAddr<U> {
        RemoteAddr(RemoteSpan::new(self.c[0], self.rkey(), NO_END))
    }
}

impl<U> fmt::Debug for RemoteSpan<U> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let limit = data::behind_rkey(self.c);
        let len = if limit == READS_NOTHING { 0 } else { limit };
        write!(f, "RemoteSpan({len} bytes at {:#x}, rkey {:#x})", self.c[0], self.rkey())
    }
}

impl_debug!([U] RemoteAddr<U>, |it| "RemoteAddr({:#x}, rkey {:#x})", it.0.c[0], it.0.rkey());

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use std::hash::{Hash, Hasher};

    use super::*;
    use crate::memory::{RemoteRead, RemoteSlice};

    /// Slices, spans and addresses are equal if all their parts are. Then their hashes are equal.
    #[test]
    fn names_of_remote_memory_are_compared_whole() {
        let parts = [(1, 8, 3), (2, 8, 3), (1, 9, 3), (1, 8, 4)];
        let slices =
            parts.map(|(at, len, key)| RemoteSlice::<RemoteRead>::from_parts(at, len, key));
        let spans = slices.map(|slice| slice.read());
        let starts = spans.map(|span| span.start());
        for i in 0..4 {
            for j in 0..4 {
                assert_eq!([slices[i] == slices[j], spans[i] == spans[j]], [i == j; 2]);
            }
        }
        // An address has no length: the third equals the first.
        assert!(starts[2] == starts[0] && starts[1] != starts[0] && starts[3] != starts[0]);
        assert_eq!(HashSet::from(slices).len(), 4);
        // Sets would also work with a constant hash, so hashes are compared.
        assert_eq!(HashSet::from(slices.map(hash)).len(), 4);
        assert_eq!(HashSet::from(spans.map(hash)).len(), 4);
        assert_eq!(HashSet::from(starts.map(hash)).len(), 3);
    }

    fn hash(of: impl Hash) -> u64 {
        let mut hasher = std::hash::DefaultHasher::new();
        of.hash(&mut hasher);
        hasher.finish()
    }

    /// The limits of spans whose lengths are around the largest 32-bit number.
    #[test]
    fn limits() {
        let write = |len| data::behind_rkey(RemoteSpan::to_write(1, 2, len).c);
        let read = |len| data::behind_rkey(RemoteSpan::to_read(1, 2, len).c);
        assert_eq!([0, 1, 1 << 31].map(write), [0, 1, 1 << 31]);
        assert_eq!([u32::MAX as u64 - 1, u32::MAX as u64].map(write), [u32::MAX - 1, u32::MAX]);
        assert_eq!([1 << 32, u64::MAX].map(write), [u32::MAX; 2]);
        assert_eq!([0, 1, 1 << 31].map(read), [READS_NOTHING, 1, 1 << 31]);
        assert_eq!([u32::MAX as u64, 1 << 32, u64::MAX].map(read), [u32::MAX - 1; 3]);
        let span = RemoteSpan::to_read(0x10, 0x20, 0);
        assert_eq!((span.c[0], span.rkey(), span.start().0.rkey()), (0x10, 0x20, 0x20));
        assert_eq!(data::behind_rkey(span.c), READS_NOTHING);
        assert_eq!(
            format!("{span:?} {:?}", span.start()),
            "RemoteSpan(0 bytes at 0x10, rkey 0x20) RemoteAddr(0x10, rkey 0x20)"
        );
    }
}
