//! The opcodes, and the fields of `ibv_send_wr` that each of them reads.

#![allow(unsafe_code)] // writes C work requests

use crate::in_flight::PostErrorKind;
use crate::remote::{READS_NOTHING, RemoteCell, RemoteSpan, ToRead};
use crate::sys::types::{atomic_t, ibv_send_wr, ibv_wr_opcode};

/// An opcode of ibv_post_send(3) with its operands. A closed set: there is no way from an integer (R1.3).
///
/// ```
/// # use proverbs::*;
/// # let proverbs::guide::Ends { pool, .. } = proverbs::guide::ends()?;
/// /// Bytes of operands in a descriptor.
/// fn operands<O: Opcode, D>(_: &WorkRequest<O, D>) -> usize {
///     std::mem::size_of::<O>()
/// }
/// let buf = pool.take().ok_or("no buffer")?;
/// assert_eq!(operands(&Send::new(buf)), 0);
/// assert_eq!(operands(&SendWithImm::new(Empty, 7)), 4); // `imm_data`
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Opcode: sealed::Sealed {
    #[doc(hidden)]
    const CODE: u32;

    /// How many bytes it may transfer at most; a READ, how many it does. Any number, if it has no remote span.
    #[doc(hidden)]
    #[inline(always)]
    fn limit(&self) -> u32 {
        u32::MAX
    }

    /// Writes what the opcode reads besides the gather list.
    ///
    /// # Safety
    /// `wr` is writable, and no other pointer to it is used meanwhile.
    #[doc(hidden)]
    unsafe fn emit(self, wr: *mut ibv_send_wr);
}

/// SEND (`IBV_WR_SEND`): the data lands in a receive of the peer's.
///
/// ```
/// # use proverbs::*;
/// # let proverbs::guide::Ends { mut a, mut b, mut cq, pool, .. } = proverbs::guide::ends()?;
/// for _ in 0..3 {
///     b.post_recv(Recv::new(pool.take().ok_or("no buffer")?))?;
/// }
/// let mut buf = pool.take().ok_or("no buffer")?;
/// buf.copy_from(b"of a buffer")?;
/// a.post_send(Send::new(buf))?;
/// a.post_send(Send::inline(b"copied"))?;                  // an array: the compiler counts it
/// a.post_send(Send::inline_slice("copied".as_bytes()))?;  // a slice: counted while it is posted
/// proverbs::guide::poll(&mut cq, 6)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Send;

/// SEND_WITH_IMM (`IBV_WR_SEND_WITH_IMM`): a SEND whose completion at the peer carries 32 bits.
///
/// ```
/// # use proverbs::*;
/// # let proverbs::guide::Ends { mut a, mut b, mut cq, .. } = proverbs::guide::ends()?;
/// for _ in 0..3 {
///     b.post_recv(Recv::empty())?; // room for no bytes, so none may come
/// }
/// a.post_send(SendWithImm::new(Empty, 1))?;
/// a.post_send(SendWithImm::inline(&[], 2))?;
/// a.post_send(SendWithImm::inline_slice(&[], 3))?;
/// let mut got = Vec::new();
/// while got.len() < 3 {
///     cq.poll()?.for_each(|completion| got.extend(completion.imm_data()));
/// }
/// assert_eq!(got, [1, 2, 3]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct SendWithImm {
    pub(super) imm_data: u32,
}

/// RDMA_WRITE (`IBV_WR_RDMA_WRITE`): the data lands in the peer's memory, which gets no notice.
///
/// ```
/// # use proverbs::*;
/// # let proverbs::guide::Ends { mut a, b: _b, mut cq, pd, .. } = proverbs::guide::ends()?;
/// let region = pd.register::<RemoteWrite>(8)?;
/// a.post_send(RdmaWrite::inline(b"8 bytes!", region.remote().write()))?;
/// proverbs::guide::poll(&mut cq, 1)?;
/// let mut there = [0; 8];
/// region.read_at(0, &mut there)?;
/// assert_eq!(&there, b"8 bytes!");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// ```
/// # use proverbs::*;
/// # let proverbs::guide::Ends { mut a, b: _b, mut cq, pool, pd, .. } = proverbs::guide::ends()?;
/// let region = pd.register::<RemoteWrite>(256)?;
/// let (start, rest) = (region.remote(), region.remote().slice(128, 128)?);
/// let mut buf = pool.take().ok_or("no buffer")?;
/// buf.copy_from(b"of a buffer")?;
/// post_send!(a, [
///     RdmaWrite::new(buf, start.write()),
///     RdmaWrite::inline_slice("any length".as_bytes(), rest.write()),
/// ])?;
/// proverbs::guide::poll(&mut cq, 2)?;
/// let mut there = [0; 10];
/// region.read_at(128, &mut there)?;
/// assert_eq!(&there, b"any length");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct RdmaWrite {
    pub(super) remote: RemoteSpan,
}

/// RDMA_WRITE_WITH_IMM (`IBV_WR_RDMA_WRITE_WITH_IMM`): a WRITE that also consumes a receive of the peer's (R1.5).
///
/// ```
/// # use proverbs::*;
/// # let proverbs::guide::Ends { mut a, mut b, mut cq, pd, .. } = proverbs::guide::ends()?;
/// let region = pd.register::<RemoteWrite>(64)?;
/// let at = region.remote().write();
/// for _ in 0..3 {
///     b.post_recv(Recv::empty())?; // what the notices use up
/// }
/// a.post_send(RdmaWriteWithImm::new(Empty, at, 1))?;
/// a.post_send(RdmaWriteWithImm::inline(b"8 bytes!", at, 2))?;
/// a.post_send(RdmaWriteWithImm::inline_slice("any length".as_bytes(), at, 3))?;
/// let mut noticed = Vec::new();
/// while noticed.len() < 3 {
///     for completion in cq.poll()? {
///         if completion.opcode() == Some(WcOpcode::RecvRdmaWithImm) {
///             noticed.extend(completion.imm_data());
///         }
///     }
/// }
/// assert_eq!(noticed, [1, 2, 3]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct RdmaWriteWithImm {
    pub(super) remote: RemoteSpan,
    pub(super) imm_data: u32,
}

/// RDMA_READ (`IBV_WR_RDMA_READ`): the peer's memory lands in the buffer.
///
/// ```
/// # use proverbs::*;
/// # let proverbs::guide::Ends { mut a, b: _b, mut cq, pool, pd, .. } = proverbs::guide::ends()?;
/// let region = pd.register::<RemoteRead>(256)?;
/// region.write_at(0, b"at the peer")?;
/// a.post_send(RdmaRead::new(pool.take().ok_or("no buffer")?, region.remote().read()))?;
/// let read = proverbs::guide::poll(&mut cq, 1)?.remove(0).ok_or("a READ has a buffer")?;
/// assert_eq!(&read[..11], b"at the peer");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct RdmaRead {
    pub(super) remote: RemoteSpan<ToRead>,
}

/// ATOMIC_CMP_AND_SWP (`IBV_WR_ATOMIC_CMP_AND_SWP`): the old value of the peer's 8 bytes lands in the buffer.
///
/// ```
/// # use proverbs::*;
/// # let proverbs::guide::Ends { mut a, b: _b, mut cq, pool, pd, .. } = proverbs::guide::ends()?;
/// let region = pd.register::<RemoteAtomic>(8)?;
/// let lock = region.remote().atomic(0)?;
/// let operands = CompareSwap { compare: 0, swap: 1 };
/// a.post_send(CmpAndSwp::new(pool.take().ok_or("no buffer")?, lock, operands))?;
/// let result = proverbs::guide::poll(&mut cq, 1)?.remove(0).ok_or("an atomic has a buffer")?;
/// assert_eq!(result[..], 0u64.to_ne_bytes()); // it was free, and is ours
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct CmpAndSwp {
    pub(super) remote: RemoteCell,
    pub(super) compare: u64,
    pub(super) swap: u64,
}

/// ATOMIC_FETCH_AND_ADD (`IBV_WR_ATOMIC_FETCH_AND_ADD`): the old value of the peer's 8 bytes lands in the buffer.
///
/// ```
/// # use proverbs::*;
/// # let proverbs::guide::Ends { mut a, b: _b, mut cq, pool, pd, .. } = proverbs::guide::ends()?;
/// let region = pd.register::<RemoteAtomic>(8)?;
/// let ticket = region.remote().atomic(0)?;
/// a.post_send(FetchAndAdd::new(pool.take().ok_or("no buffer")?, ticket, 5))?;
/// let result = proverbs::guide::poll(&mut cq, 1)?.remove(0).ok_or("an atomic has a buffer")?;
/// assert_eq!(result[..], 0u64.to_ne_bytes());              // what was there before
/// assert_eq!(region.cell(0)?.load(std::sync::atomic::Ordering::Acquire), 5);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct FetchAndAdd {
    pub(super) remote: RemoteCell,
    pub(super) add: u64,
}

/// The message of a work request, and how many bytes it may have, or its buffers have: if that is less. Cold: C's form
/// says it all.
///
/// # Safety
/// `wr` is emitted, and `len` bytes are in its gather list.
#[cold]
pub(super) unsafe fn beyond(wr: *mut ibv_send_wr, len: u64) -> Option<PostErrorKind> {
    // SAFETY: the caller's contract.
    let opcode = unsafe { (*wr).opcode };
    let is_read = opcode == RdmaRead::CODE;
    if !is_read && opcode != RdmaWrite::CODE && opcode != RdmaWriteWithImm::CODE {
        return None;
    }
    // SAFETY: the caller's contract.
    let rdma = unsafe { arm::<[u64; 2]>(wr) };
    // SAFETY: these opcodes emit it (`emit_remote`).
    let remote = unsafe { rdma.read() };
    let limit = RemoteSpan::<ToRead>::limit_in(remote);
    let slice = if is_read && limit == READS_NOTHING { 0 } else { limit.into() };
    // What a READ brings fills its buffers, as far as they go.
    match (is_read, slice < len, len < slice) {
        (false, true, _) => Some(PostErrorKind::ExceedsSlice { asked: len, max: slice }),
        (true, _, true) => Some(PostErrorKind::ExceedsBuffers { asked: slice, max: len }),
        _ => None,
    }
}

/// The arm `A` of the union behind `wr`: all arms begin where the union does.
///
/// # Safety
/// `wr` is writable.
#[inline(always)]
pub(super) unsafe fn arm<A>(wr: *mut ibv_send_wr) -> *mut A {
    // SAFETY: the caller's contract; no reference is made.
    unsafe { &raw mut (*wr).wr }.cast()
}

/// # Safety
/// `wr` is writable.
#[inline(always)]
unsafe fn emit_imm(wr: *mut ibv_send_wr, imm_data: u32) {
    // SAFETY: the caller's contract; no reference is made.
    let imm = unsafe { &raw mut (*wr).imm_data_invalidated_rkey_union }.cast::<u32>();
    // Network order on the wire and in the struct; host order everywhere in this crate (R1.4).
    // SAFETY: the field is inside the work request.
    unsafe { imm.write(imm_data.to_be()) };
}

/// # Safety
/// `wr` is writable.
#[inline(always)]
unsafe fn emit_remote<U>(wr: *mut ibv_send_wr, remote: RemoteSpan<U>) {
    // An `rdma_t`, with the limit in its padding (`layout`).
    // SAFETY: the caller's contract.
    let rdma = unsafe { arm::<[u64; 2]>(wr) };
    // SAFETY: as above.
    unsafe { rdma.write(remote.to_c()) };
}

/// # Safety
/// `wr` is writable.
#[inline(always)]
unsafe fn emit_atomic(wr: *mut ibv_send_wr, remote: RemoteCell, compare_add: u64) {
    // SAFETY: the caller's contract.
    let atomic = unsafe { arm::<atomic_t>(wr) };
    // SAFETY: as above.
    unsafe { (*atomic).remote_addr = remote.addr };
    // SAFETY: as above.
    unsafe { (*atomic).rkey = remote.rkey };
    // SAFETY: as above.
    unsafe { (*atomic).compare_add = compare_add };
}

impl Opcode for Send {
    const CODE: u32 = ibv_wr_opcode::IBV_WR_SEND;

    #[inline(always)]
    unsafe fn emit(self, _: *mut ibv_send_wr) {}
}

impl Opcode for SendWithImm {
    const CODE: u32 = ibv_wr_opcode::IBV_WR_SEND_WITH_IMM;

    #[inline(always)]
    unsafe fn emit(self, wr: *mut ibv_send_wr) {
        // SAFETY: the caller's contract.
        unsafe { emit_imm(wr, self.imm_data) };
    }
}

impl Opcode for RdmaWrite {
    const CODE: u32 = ibv_wr_opcode::IBV_WR_RDMA_WRITE;

    #[inline(always)]
    fn limit(&self) -> u32 {
        self.remote.limit()
    }

    #[inline(always)]
    unsafe fn emit(self, wr: *mut ibv_send_wr) {
        // SAFETY: the caller's contract.
        unsafe { emit_remote(wr, self.remote) };
    }
}

impl Opcode for RdmaWriteWithImm {
    const CODE: u32 = ibv_wr_opcode::IBV_WR_RDMA_WRITE_WITH_IMM;

    #[inline(always)]
    fn limit(&self) -> u32 {
        self.remote.limit()
    }

    #[inline(always)]
    unsafe fn emit(self, wr: *mut ibv_send_wr) {
        // SAFETY: the caller's contract.
        unsafe { emit_remote(wr, self.remote) };
        // SAFETY: as above.
        unsafe { emit_imm(wr, self.imm_data) };
    }
}

impl Opcode for RdmaRead {
    const CODE: u32 = ibv_wr_opcode::IBV_WR_RDMA_READ;

    #[inline(always)]
    fn limit(&self) -> u32 {
        self.remote.limit()
    }

    #[inline(always)]
    unsafe fn emit(self, wr: *mut ibv_send_wr) {
        // SAFETY: the caller's contract.
        unsafe { emit_remote(wr, self.remote) };
    }
}

impl Opcode for CmpAndSwp {
    const CODE: u32 = ibv_wr_opcode::IBV_WR_ATOMIC_CMP_AND_SWP;

    #[inline(always)]
    unsafe fn emit(self, wr: *mut ibv_send_wr) {
        // SAFETY: the caller's contract.
        unsafe { emit_atomic(wr, self.remote, self.compare) };
        // SAFETY: as above.
        let atomic = unsafe { arm::<atomic_t>(wr) };
        // SAFETY: as above.
        unsafe { (*atomic).swap = self.swap };
    }
}

impl Opcode for FetchAndAdd {
    const CODE: u32 = ibv_wr_opcode::IBV_WR_ATOMIC_FETCH_AND_ADD;

    #[inline(always)]
    unsafe fn emit(self, wr: *mut ibv_send_wr) {
        // SAFETY: the caller's contract.
        unsafe { emit_atomic(wr, self.remote, self.add) };
    }
}

mod sealed {
    use super::*;
    pub trait Sealed {}
    impl Sealed for Send {}
    impl Sealed for SendWithImm {}
    impl Sealed for RdmaWrite {}
    impl Sealed for RdmaWriteWithImm {}
    impl Sealed for RdmaRead {}
    impl Sealed for CmpAndSwp {}
    impl Sealed for FetchAndAdd {}
}
