//! The target of an RDMA WRITE or the source of a READ: with an end, or without.

use std::fmt;
use std::marker::PhantomData;

use crate::memory::remote::sealed::Sealed;

/// A start and a length in the peer's memory: the bytes that an RDMA WRITE may write, or that a
/// READ brings (`RemoteSpan<ToRead>`). It exists only where the peer granted that right (R6.7).
///
/// A longer WRITE is refused when it is posted. A READ brings exactly these bytes and is refused if
/// they do not fit its buffers. [`RemoteAddr`] is an address without an end.
///
/// ```
/// # use proverbs::prelude::*;
/// use proverbs::{memory::{ReadAddr, ToRead, ToWrite, WriteAddr}, post::PostErrorKind};
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
    addr: u64,
    /// The rkey, and the limit where C has padding: as they are in memory behind `remote_addr`, so
    /// that all is one store of 16 bytes and cold code finds the limit there.
    rkey_and_limit: u64,
    _use: PhantomData<U>,
}

/// An address in the peer's memory without an end, made by [`RemoteSpan::start`].
///
/// It gives up the checks of a [`RemoteSpan`]: a WRITE writes all of its data there, and a READ
/// brings as many bytes as its buffers' lengths say ([`Buf::set_len`](crate::Buf::set_len)). Beyond
/// what the peer registered, the peer's device refuses the access and the connection fails (R6.7);
/// within it, the peer's other data is overwritten. It is for programs that keep the bounds
/// themselves, as with C's `wr.rdma.remote_addr`.
///
/// ```
/// # use proverbs::prelude::*;
/// use proverbs::memory::{RemoteAddr, ToRead};
/// # let proverbs::loopback::Pair { mut a, b: _b, mut cq, pool, pd, .. } = proverbs::loopback::pair()?;
/// let region = pd.register::<RemoteReadWrite>(64)?;
/// let header = region.remote().slice(0, 8)?;
/// let to: RemoteAddr = header.write().start();
/// a.post_send(wr::RdmaWrite::inline(b"a header and what follows", to))?; // 25 bytes, 17 of them beyond the slice
///
/// let from: RemoteAddr<ToRead> = header.read().start();
/// let mut buf = pool.take().ok_or("no buffer")?;
/// buf.set_len(25); // what the READ brings
/// a.post_send(wr::RdmaRead::new(buf, from))?;
/// let read = proverbs::loopback::poll(&mut cq, 2)?.remove(1).ok_or("a READ has a buffer")?;
/// assert_eq!(&read[..], b"a header and what follows");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct RemoteAddr<U = ToWrite>(RemoteSpan<U>);

/// For RDMA WRITE: the use of a [`RemoteSpan`] or a [`RemoteAddr`] (R6.7).
pub enum ToWrite {}
/// For RDMA READ: the use of a [`RemoteSpan`] or a [`RemoteAddr`] (R6.7).
pub enum ToRead {}

/// The limit of a READ that brings no bytes: more than any buffer holds. So the one comparison with
/// the buffers' size finds both this case and bytes that do not fit, and leaves them to cold code.
pub(crate) const READS_NOTHING: u32 = u32::MAX;

/// The limit of a span without an end. No WRITE's data is longer (R3.5).
const NO_END: u32 = u32::MAX;

impl<U> Clone for RemoteSpan<U> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<U> Copy for RemoteSpan<U> {}

impl<U> Clone for RemoteAddr<U> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<U> Copy for RemoteAddr<U> {}

impl RemoteSpan {
    /// The limit is cut to 32 bits: a longer WRITE is refused in any case (R3.5).
    #[inline(always)]
    pub(crate) fn to_write(addr: u64, rkey: u32, len: u64) -> Self {
        Self::new(addr, rkey, len.min(NO_END.into()) as u32)
    }
}

impl RemoteSpan<ToRead> {
    /// The limit is cut to 32 bits: no buffers hold more.
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
        let ([a, b, c, d], [e, f, g, h]) = (rkey.to_ne_bytes(), limit.to_ne_bytes());
        let rkey_and_limit = u64::from_ne_bytes([a, b, c, d, e, f, g, h]);
        RemoteSpan { addr, rkey_and_limit, _use: PhantomData }
    }

    /// The address alone, without an end. [`RemoteAddr`] says what that gives up.
    #[inline(always)]
    pub fn start(self) -> RemoteAddr<U> {
        RemoteAddr(RemoteSpan::new(self.addr, self.rkey(), NO_END))
    }

    #[inline(always)]
    pub(crate) fn rkey(&self) -> u32 {
        let [a, b, c, d, ..] = self.rkey_and_limit.to_ne_bytes();
        u32::from_ne_bytes([a, b, c, d])
    }

    /// For a WRITE, the greatest number of bytes. For a READ, the number of bytes, or
    /// `READS_NOTHING`.
    #[inline(always)]
    pub(crate) fn limit(&self) -> u32 {
        let [.., a, b, c, d] = self.rkey_and_limit.to_ne_bytes();
        u32::from_ne_bytes([a, b, c, d])
    }

    /// The 16 bytes from `remote_addr` on, as C has them in memory.
    #[inline(always)]
    pub(crate) fn to_c(self) -> [u64; 2] {
        [self.addr, self.rkey_and_limit]
    }

    /// The limit within the result of `to_c`.
    pub(crate) fn limit_in(c: [u64; 2]) -> u32 {
        RemoteSpan::<U> { addr: c[0], rkey_and_limit: c[1], _use: PhantomData }.limit()
    }
}

impl<U> fmt::Debug for RemoteSpan<U> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let len = if self.limit() == READS_NOTHING { 0 } else { self.limit() };
        write!(f, "RemoteSpan({len} bytes at {:#x}, rkey {:#x})", self.addr, self.rkey())
    }
}

impl<U> fmt::Debug for RemoteAddr<U> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RemoteAddr({:#x}, rkey {:#x})", self.0.addr, self.0.rkey())
    }
}

/// A target of an RDMA WRITE: a [`RemoteSpan`], or a [`RemoteAddr`] without an end (R6.7).
#[diagnostic::on_unimplemented(
    message = "an RDMA WRITE cannot start at a `{Self}`",
    label = "not an address that the peer opened for writing",
    note = "`write()` of the peer's `RemoteSlice` gives one, where REMOTE_WRITE was granted (R6.7)"
)]
pub trait WriteAddr: Sealed {
    /// Whether the span has an end, at its length.
    #[doc(hidden)]
    const HAS_END: bool;

    #[doc(hidden)]
    fn span(self) -> RemoteSpan;
}

/// A source of an RDMA READ: a [`RemoteSpan<ToRead>`](RemoteSpan), or a
/// [`RemoteAddr<ToRead>`](RemoteAddr) without an end (R6.7).
#[diagnostic::on_unimplemented(
    message = "an RDMA READ cannot start at a `{Self}`",
    label = "not an address that the peer opened for reading",
    note = "`read()` of the peer's `RemoteSlice` gives one, where REMOTE_READ was granted (R6.7)"
)]
pub trait ReadAddr: Sealed {
    /// See [`WriteAddr`].
    #[doc(hidden)]
    const HAS_END: bool;

    #[doc(hidden)]
    fn span(self) -> RemoteSpan<ToRead>;
}

// Written out instead of made by a macro, because errors show the impls.
impl WriteAddr for RemoteSpan {
    const HAS_END: bool = true;

    #[inline(always)]
    fn span(self) -> RemoteSpan {
        self
    }
}

impl WriteAddr for RemoteAddr {
    const HAS_END: bool = false;

    #[inline(always)]
    fn span(self) -> RemoteSpan {
        self.0
    }
}

impl ReadAddr for RemoteSpan<ToRead> {
    const HAS_END: bool = true;

    #[inline(always)]
    fn span(self) -> RemoteSpan<ToRead> {
        self
    }
}

impl ReadAddr for RemoteAddr<ToRead> {
    const HAS_END: bool = false;

    #[inline(always)]
    fn span(self) -> RemoteSpan<ToRead> {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The limits of spans whose lengths are around the greatest 32-bit number.
    #[test]
    fn limits() {
        let write = |len| RemoteSpan::to_write(1, 2, len).limit();
        let read = |len| RemoteSpan::to_read(1, 2, len).limit();
        assert_eq!([0, 1, 1 << 31].map(write), [0, 1, 1 << 31]);
        assert_eq!([u32::MAX as u64 - 1, u32::MAX as u64].map(write), [u32::MAX - 1, u32::MAX]);
        assert_eq!([1 << 32, u64::MAX].map(write), [u32::MAX; 2]);
        assert_eq!([0, 1, 1 << 31].map(read), [READS_NOTHING, 1, 1 << 31]);
        assert_eq!([u32::MAX as u64, 1 << 32, u64::MAX].map(read), [u32::MAX - 1; 3]);
        let span = RemoteSpan::to_read(0x10, 0x20, 0);
        assert_eq!((span.to_c()[0], span.rkey(), span.start().0.rkey()), (0x10, 0x20, 0x20));
        assert_eq!(RemoteSpan::<ToRead>::limit_in(span.to_c()), READS_NOTHING);
        assert_eq!(
            format!("{span:?} {:?}", span.start()),
            "RemoteSpan(0 bytes at 0x10, rkey 0x20) RemoteAddr(0x10, rkey 0x20)"
        );
    }
}
