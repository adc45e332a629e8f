//! Memory regions, with their rights in the type.

// No model: it only returns a word of open memory to the program as an atomic.

#![allow(unsafe_code)] // makes atomics of registered memory

use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use crate::allows::{Allows, RuledBy, call};
use crate::device::ProtectionDomain;
use crate::memory::own::Invariant;
use crate::memory::own::heap::Pages;
use crate::memory::owning_handle::{KeptAlive, OwningHandle, owning_handle};
use crate::memory::registered::{AccessFlags, Registered};
use crate::memory::{
    Access, CanBeWritten, HasPieces, HasSources, Includes, Memory, NeverChanges, OpenBuf, Ordered,
    OutOfBounds, ReadOnlyBuf, RegistersAs, Remote, RemoteSlice, SharedBuf,
};
use crate::terms::error::{Error, Refused};

/// A registered region with the rights `A` (`ibv_reg_mr`).
///
/// With a remote right, a peer that has the key may access the bytes at any time. So there is no
/// `&mut [u8]` to them, nor a `&[u8]` if the peer may write ([R6.12](crate::guide::rules#r6-12)).
/// The program reads and writes the region with copies and atomic cells. Pieces of it ([`OpenBuf`])
/// can be posted any number of times.
///
/// ```
/// # use proverbs::prelude::*;
/// use proverbs::memory::OpenBuf;
/// # let proverbs::loopback::Pair { pd, .. } = proverbs::loopback::pair()?;
/// use std::sync::atomic::Ordering;
///
/// let region: MemoryRegion<RemoteAll> = pd.register(4096)?;
/// assert_eq!((region.len(), region.is_empty()), (4096, false));
/// region.write_at(0, b"what peers read")?;
/// region.cell(64)?.fetch_add(1, Ordering::Relaxed);  // 8 bytes, atomically
/// let key: RemoteSlice<RemoteAll> = region.remote(); // send it to the peer over any connection
///
/// let piece: OpenBuf = region.piece(128, 32)?;       // posted by this program
/// // This fails because `piece` may be in flight.
/// let region = region.destroy().unwrap_err().into_object();
/// drop(piece);
/// region.destroy()?;
/// # let _ = key;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// `M` is its [`Memory`]. It can also be [`Opaque`](crate::memory::Opaque), memory that other code
/// uses as well, or a [`DmaBuf`](crate::ext::device_memory::DmaBuf) or
/// [`Dm`](crate::ext::device_memory::Dm), whose bytes the processor cannot access.
#[doc(alias = "ibv_mr")]
pub struct MemoryRegion<A: Access, M = Pages> {
    region: Arc<Registered>,
    /// The rights, and the type of the region's memory.
    _is: PhantomData<Invariant<(A, M)>>,
}

/// Builds a [`MemoryRegion`]. Returned by [`ProtectionDomain::region`].
///
/// ```
/// # use proverbs::prelude::*;
/// # let proverbs::loopback::Pair { pd, .. } = proverbs::loopback::pair()?;
/// let new = pd.register::<RemoteWrite>(4096)?; // short for `region().create(4096)`
/// let own = pd.region::<RemoteWrite>().create_in(vec![0u8; 4096])?;
/// assert_eq!(new.len(), own.len());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Other kinds of regions: [`on_demand`](Self::on_demand) does not pin the pages,
/// [`opaque`](Self::opaque) uses memory that other code uses as well, and
/// [`relaxed_ordering`](Self::relaxed_ordering) lets writes arrive in any order.
#[must_use = "`create` or `create_in` registers the region"]
pub struct RegionBuilder<'a, A: Access> {
    pub(crate) pd: &'a ProtectionDomain,
    _rights: PhantomData<fn() -> A>,
}

impl<'a, A: Access> RegionBuilder<'a, A> {
    pub(crate) fn of(pd: &'a ProtectionDomain) -> Self {
        RegionBuilder { pd, _rights: PhantomData }
    }
}

impl<A: Access> RegionBuilder<'_, A> {
    /// Allocates and registers `len` bytes, initially zero (`ibv_reg_mr`).
    ///
    /// [Blocks](crate::guide::shutdown) while the device does not answer.
    ///
    /// # Errors
    /// As for [`register`](ProtectionDomain::register).
    #[doc(alias = "ibv_reg_mr")]
    pub fn create(self, len: usize) -> Result<MemoryRegion<A>, Error> {
        Ok(self.create_in(Pages::new("ibv_reg_mr", len)?)?)
    }

    /// Registers all of `memory` (`ibv_reg_mr`). [`MemoryRegion::destroy`] returns it.
    ///
    /// [Blocks](crate::guide::shutdown) while the device does not answer.
    ///
    /// Read-only memory is registered without LOCAL_WRITE. It only allows the rights
    /// [`RemoteRead`](crate::memory::RemoteRead) and [`LocalRead`](crate::memory::LocalRead)
    /// ([R6.3](crate::guide::rules#r6-3)).
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// # let proverbs::loopback::Pair { mut a, b: _b, mut cq, pool, pd, .. } =
    /// #     proverbs::loopback::pair()?;
    /// let region = pd.region::<RemoteWrite>().create_in(vec![0u8; 256])?;
    /// let mut buf = pool.take().ok_or("no buffer")?;
    /// buf.copy_from(b"from a peer")?;
    /// a.post_send(wr::RdmaWrite::new(buf, region.remote().write()))?;
    /// proverbs::loopback::poll(&mut cq, 1)?;
    /// let bytes: Vec<u8> = region.destroy()?; // the key is no longer valid
    /// assert!(bytes.starts_with(b"from a peer"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As for [`register`](ProtectionDomain::register). The error contains the memory.
    #[doc(alias = "ibv_reg_mr")]
    pub fn create_in<M: Memory + Allows<call::Register<A>>>(
        self,
        memory: M,
    ) -> Result<MemoryRegion<A, M>, Refused<M>> {
        let access = AccessFlags::from_bits_retain(A::FLAGS);
        Ok(MemoryRegion::of(Registered::all(self.pd, memory, access)?))
    }
}

allows! { [A: Access, M: Memory<Protection: RegistersAs<A>>] M: Register<A>; }

impl_debug!([A: Access] RegionBuilder<'_, A>, |_it| "RegionBuilder({})", A::NAME);

allows! {
    [A: Remote, M] MemoryRegion<A, M>: RemoteKey;
    [A: Includes<B> + Remote, B: Access, M] MemoryRegion<A, M>: Export<B>;
    [A: Access, M: HasPieces] MemoryRegion<A, M>: Piece;
    [A: Access, M: HasSources] MemoryRegion<A, M>: Source;
    [A: Access, M: NeverChanges] MemoryRegion<A, M>: Share;
    [A: Remote + Ordered, M: Memory<Protection: CanBeWritten>] MemoryRegion<A, M>: CellAt;
    [R: RuledBy<call::WriteAt, Part: Memory<Protection: CanBeWritten>>] R: WriteAt;
}

ruled_by! { WriteAt: [A: Access, M] MemoryRegion<A, M>, M; }

impl<A: Access, M> MemoryRegion<A, M> {
    /// The key with which a peer accesses the whole region, with all its rights: C's `mr->addr` and
    /// `mr->rkey`. The key's type contains only the rights, not other registration options such as
    /// [`Relaxed`](crate::memory::Relaxed).
    #[doc(alias = "rkey")]
    pub fn remote(&self) -> RemoteSlice<A::Key>
    where
        Self: Allows<call::RemoteKey>,
    {
        self.slice_with_rights()
    }

    /// The key with which a peer accesses the whole region, with the rights `B` only.
    ///
    /// The type only restricts programs that use it. The rkey itself carries all of the region's
    /// rights.
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// # let proverbs::loopback::Pair { pd, .. } = proverbs::loopback::pair()?;
    /// let region = pd.register::<RemoteReadWrite>(64)?;
    /// let for_readers: RemoteSlice<RemoteRead> = region.export();
    /// # let _ = for_readers;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn export<B: Access>(&self) -> RemoteSlice<B>
    where
        Self: Allows<call::Export<B>>,
    {
        self.slice_with_rights()
    }

    /// Copies bytes at `offset` into `out`.
    ///
    /// A peer or another thread may write these bytes at the same time. Each aligned 8-byte word in
    /// the copy then has a value that was in memory at some moment. Different words may come from
    /// different moments, in any order. The copy is a loop of relaxed loads of words; for large
    /// copies it is about half as fast as memcpy(3). It is fastest at offsets that are multiples of
    /// 8.
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// # let proverbs::loopback::Pair { pd, .. } = proverbs::loopback::pair()?;
    /// let region = pd.register::<RemoteWrite>(16)?;
    /// region.write_at(4, b"abcd")?;
    /// let mut out = [0; 4];
    /// region.read_at(4, &mut out)?;
    /// assert_eq!(&out, b"abcd");
    /// assert!(region.read_at(14, &mut out).is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`OutOfBounds`](crate::memory::OutOfBounds) if the bytes are not all inside the region.
    /// Nothing is read then.
    pub fn read_at(&self, offset: usize, out: &mut [u8]) -> Result<(), OutOfBounds>
    where
        M: Memory,
    {
        self.region.read_at::<M::Protection>(offset, out)
    }

    /// Copies `bytes` into the region at `offset`.
    ///
    /// A peer may read these bytes at the same time. It sees each aligned 8-byte word as a whole,
    /// but may see the words change in any order.
    ///
    /// # Errors
    /// [`OutOfBounds`](crate::memory::OutOfBounds) if the bytes are not all inside the region.
    /// Nothing is written then.
    pub fn write_at(&self, offset: usize, bytes: &[u8]) -> Result<(), OutOfBounds>
    where
        Self: Allows<call::WriteAt>,
    {
        self.region.open().write(offset, bytes)
    }

    /// Returns the 8 bytes at `offset` as an atomic, in this machine's byte order. Their address
    /// must be a multiple of 8. In a region of [`Pages`] or of a mapping, every `offset` that is a
    /// multiple of 8 satisfies this.
    ///
    /// The device's atomics are atomic with respect to each other. They are atomic with respect to
    /// the processor only if the device reports it ([R4.9](crate::guide::rules#r4-9)).
    ///
    /// # Errors
    /// [`OutOfBounds`](crate::memory::OutOfBounds) if the bytes are not all inside the region, or,
    /// with `misaligned` set, if their address is not a multiple of 8
    /// ([R4.2](crate::guide::rules#r4-2)).
    pub fn cell(&self, offset: usize) -> Result<&AtomicU64, OutOfBounds>
    where
        Self: Allows<call::CellAt>,
    {
        self.region.check(offset, 8)?;
        let at = self.region.at(offset).cast::<u64>();
        if !at.is_aligned() {
            return Err(OutOfBounds::misaligned(offset as u64, self.len() as u64));
        }
        // SAFETY: inside the region, aligned (tested here), writable (`CanBeWritten`), and accessed
        // only by atomics of this size (`Open`). The region lives as long as `self`, which is
        // borrowed.
        Ok(unsafe { AtomicU64::from_ptr(at) })
    }

    /// Returns a handle to `len` bytes at `offset`, to be posted (R6.12). This does not need remote
    /// rights.
    ///
    /// A READ may fill a piece, so read-only memory does not have pieces; see
    /// [`source`](Self::source) and [`share`](Self::share). You can reuse one handle for other
    /// pieces: see [`OpenBuf::set_range`].
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// # profile! { Copier { entry: OpenBuf } }
    /// # use proverbs::memory::OpenBuf;
    /// # let proverbs::loopback::Pair { mut a, b: _b, mut cq, pd, .. } =
    /// #     proverbs::loopback::pair_of::<Copier>()?;
    /// # let region = pd.register::<RemoteWrite>(64)?;
    /// # let theirs = region.remote();
    /// let log = pd.register::<LocalWrite>(4096)?; // one region, any part of which can be sent
    /// log.write_at(100, b"an entry")?;
    /// a.post_send(wr::RdmaWrite::new(log.piece(100, 8)?, theirs.write()))?;
    /// # proverbs::loopback::poll(&mut cq, 1)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`OutOfBounds`](crate::memory::OutOfBounds) if the bytes are not all inside the region, or
    /// if `len` exceeds 2^32 - 2 ([R3.8](crate::guide::rules#r3-8)).
    #[inline]
    pub fn piece(&self, offset: usize, len: usize) -> Result<OpenBuf, OutOfBounds>
    where
        Self: Allows<call::Piece>,
    {
        // INVARIANT: it keeps the region.
        self.owning_handle(offset, len).map(|handle| OpenBuf::new(handle, len))
    }

    /// Returns a handle to `len` bytes at `offset` of private read-only memory, as the source of a
    /// SEND or RDMA WRITE. The program can read the bytes at the same time, because they never
    /// change.
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// use std::sync::Arc;
    /// profile! { Fanout { entry: SharedBuf } }
    ///
    /// # let proverbs::loopback::Pair { mut a, b: _b, mut cq, pd, .. } =
    /// #     proverbs::loopback::pair_of::<Fanout>()?;
    /// # let theirs = pd.register::<RemoteWrite>(64)?;
    /// let table: Arc<[u8]> = Arc::from(*b"what never changes");
    /// let region = pd.region::<RemoteRead>().create_in(table)?;
    /// let part: SharedBuf = region.share(5, 5)?;
    /// assert_eq!(&part[..], b"never");
    /// a.post_send(wr::RdmaWrite::new(part, theirs.remote().write()))?;
    /// # proverbs::loopback::poll(&mut cq, 1)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As for [`piece`](Self::piece).
    pub fn share(&self, offset: usize, len: usize) -> Result<SharedBuf, OutOfBounds>
    where
        Self: Allows<call::Share>,
    {
        // INVARIANT: the bytes are initialised, valid for reads from any thread, and never written:
        // the memory promises that no process writes them, and its region does not grant write
        // access. The region stays registered while the handle exists, and no re-registration
        // succeeds.
        self.owning_handle(offset, len).map(SharedBuf)
    }

    /// Returns a handle to `len` bytes at `offset` of read-only memory, as the source of a SEND or
    /// RDMA WRITE. The memory can be a file, whose bytes other processes may change.
    ///
    /// [`ReadOnlyBuf`] has an example. For private memory, [`share`](Self::share) also works.
    ///
    /// # Errors
    /// As for [`piece`](Self::piece).
    pub fn source(&self, offset: usize, len: usize) -> Result<ReadOnlyBuf, OutOfBounds>
    where
        Self: Allows<call::Source>,
    {
        self.owning_handle(offset, len).map(ReadOnlyBuf)
    }

    /// The address of the first byte in work requests: C's `mr->addr`, or the iova if the region
    /// has one.
    ///
    /// If the memory belongs to this process, the pointer points to the bytes. While the region
    /// lives, `unsafe` code can pass it to C or access the bytes. Such accesses must tolerate
    /// concurrent accesses by devices, peers and other threads. `read_at`, `write_at` and cells
    /// access whole aligned 8-byte words with relaxed atomics, and so does the loopback device for
    /// pieces. Atomic accesses of another size must not be concurrent with these. For an
    /// [`Opaque`](crate::memory::Opaque) region, the contract of its registration defines which
    /// accesses are allowed. Read-only memory may not be written.
    ///
    /// For a [`DmaBuf`](crate::ext::device_memory::DmaBuf) or a
    /// [`Dm`](crate::ext::device_memory::Dm) the address is a number, not a valid pointer.
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// # let proverbs::loopback::Pair { pd, .. } = proverbs::loopback::pair()?;
    /// let region = pd.register::<RemoteRead>(64)?;
    /// assert_eq!(region.as_ptr().addr() as u64, region.remote().addr());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn as_ptr(&self) -> *mut u8 {
        self.region.at(0)
    }

    /// The length in bytes.
    pub fn len(&self) -> usize {
        self.region.len()
    }

    /// Always false: empty regions are rejected ([R6.4](crate::guide::rules#r6-4)).
    pub fn is_empty(&self) -> bool {
        false
    }

    pub(crate) fn of(region: Registered) -> Self {
        MemoryRegion { region: Arc::new(region), _is: PhantomData }
    }

    pub(crate) fn registered(&self) -> &Registered {
        &self.region
    }

    /// A reference to the registration.
    pub(crate) fn shared(&self) -> Arc<Registered> {
        self.region.clone()
    }

    /// The registration, if no piece of the region exists.
    pub(crate) fn into_registered(self) -> Result<Registered, Self> {
        let of = |region| MemoryRegion { region, _is: PhantomData };
        Arc::try_unwrap(self.region).map_err(of)
    }

    #[inline(always)]
    pub(crate) fn locate(&self, offset: usize, len: usize) -> Result<(*mut u8, u32), OutOfBounds> {
        Ok((self.region.locate(offset, len)?, self.region.lkey()))
    }

    #[inline(always)]
    fn owning_handle(&self, offset: usize, len: usize) -> Result<OwningHandle, OutOfBounds> {
        let loan = self.region.piece(offset, len)?;
        Ok(owning_handle(self.region.slab(), || KeptAlive::Region(self.region.clone()), &loan))
    }

    fn slice_with_rights<B: Access>(&self) -> RemoteSlice<B> {
        RemoteSlice {
            addr: self.region.at(0).expose_provenance() as u64,
            len: self.len() as u64,
            rkey: self.region.rkey(),
            _rights: PhantomData,
        }
    }

    /// Deregisters the memory (`ibv_dereg_mr`) and returns it. All handles to pieces of the region,
    /// and all memory windows that keep it registered, must be dropped first
    /// ([R6.11](crate::guide::rules#r6-11)).
    ///
    /// [Blocks](crate::guide::shutdown) while the device does not answer.
    ///
    /// # Errors
    /// The region, with
    /// - [`ErrorKind::Os`](crate::ErrorKind::Os): EBUSY if pieces of it exist or windows are bound
    ///   to it, otherwise the device's errno. The memory then stays registered
    ///   ([R6.9](crate::guide::rules#r6-9)).
    /// - [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported), always, if the region has or
    ///   had remote rights and the [provider](crate::Context::provider) is siw or unknown, or is
    ///   rxe on Linux before 6.0. Drop the region instead.
    /// - [`ErrorKind::Os`](crate::ErrorKind::Os) with ETIMEDOUT, on rxe, if the region has or had
    ///   remote rights and its deregistration took 150 ms or longer: the kernel may have given up
    ///   waiting for a peer's request. The region is then no longer registered, and its memory is
    ///   not reused.
    #[doc(alias = "ibv_dereg_mr")]
    pub fn destroy(mut self) -> Result<M, Refused<Self>>
    where
        M: 'static,
    {
        const VERB: &str = "ibv_dereg_mr";
        let region = Arc::get_mut(&mut self.region).ok_or_else(|| in_use(VERB));
        let memory = region.and_then(|it| it.close_for(VERB).map(|()| it.give_back()));
        memory.map_err(|error| Refused::new(self, error))
    }
}

/// The error of a verb that needs a region without pieces and windows.
pub(super) fn in_use(verb: &'static str) -> Error {
    let why = "pieces of the region exist, or windows are bound to it: drop them, including those \
               in completions";
    Error::os(verb, libc::EBUSY, why)
}

impl_debug!([A: Access, M] MemoryRegion<A, M>, |it| "MemoryRegion({} {} bytes)", A::NAME, it.len());
