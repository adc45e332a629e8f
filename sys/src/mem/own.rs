//! Memory of the program that a device may access, and what its type must guarantee.

use std::marker::PhantomData;
use std::ptr::NonNull;

/// Memory that a program moves into a pool or region, and that `destroy` returns ([R18.3],
/// [R18.13]).
///
/// | type | [`Sharing`](Memory::Sharing) | [`Protection`](Memory::Protection) |
/// |---|---|---|
/// | `Vec<T>`, `Box<[T]>`, `&'static mut [T]` of integers or floats | [`Private`] | [`Writable`] |
/// | `Arc<[T]>`, `&'static [T]` of the same | [`Private`] | [`ReadOnly`] |
/// | [`Pages`], which `create_pool` and `register` allocate | [`Private`] | [`Writable`] |
/// | [`ExternalMemory`]: a pointer, a length and a keeper | as declared | as declared |
///
/// Memory whose bytes the processor cannot access is not a `Memory`: see [`DmaBuf`] and [`Dm`].
///
/// Private memory can become a pool ([`PoolBuilder::create_in`]), whose buffers are slices, or a
/// region ([`RegionBuilder::create_in`]), which has copies and cells. Memory that other processes
/// can write can only become a region, because a `&[u8]` requires that no other code writes.
/// Read-only memory can only become a region that is never written: not by this program, the device
/// or a peer ([R6.3]).
///
/// A vector shares its first and last page with other data of the heap, and registrations pin whole
/// pages. This matters to programs that fork ([R17.4]).
///
/// ```
/// # use proverbs::prelude::*;
/// # let proverbs::loopback::Pair { pd, .. } = proverbs::loopback::pair()?;
/// let table: Vec<u64> = (0..1024).collect();
/// let region = pd.region::<RemoteRead>().create_in(table)?; // 8 KiB, for peers to read
/// assert_eq!(region.len(), 8192);
/// let table: Vec<u64> = region.destroy()?;              // returned
/// assert_eq!(table[1023], 1023);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Your own type
///
/// Implementing this trait is `unsafe`, because the device writes to the bytes that the type
/// returns. This example is a piece of an allocator's arena, which returns to the arena when it is
/// dropped:
///
/// ```
/// use std::ptr::NonNull;
/// use std::sync::{Arc, Mutex};
/// use proverbs::memory::{Memory, Private, Writable};
/// # use proverbs::prelude::*;
///
/// /// 16 chunks of 4096 bytes. A chunk that is not in `free` has one owner, its `Chunk`.
/// struct Arena {
///     base: NonNull<[u8; 4096]>,
///     free: Mutex<Vec<usize>>,
/// }
/// // SAFETY: the pointer points to memory of the arena, and chunks are handed out under a lock.
/// unsafe impl std::marker::Send for Arena {}
/// // SAFETY: a shared arena hands out chunks, and takes them back, under the lock of `free`.
/// unsafe impl Sync for Arena {}
///
/// impl Arena {
///     fn new() -> Arc<Self> {
///         let chunks: Box<[[u8; 4096]; 16]> = Box::new([[0; 4096]; 16]);
///         // A raw pointer, created once from the box, so that no reference to the bytes exists.
///         let base = NonNull::from(Box::leak(chunks)).cast();
///         Arc::new(Arena { base, free: Mutex::new((0..16).collect()) })
///     }
///
///     fn take(self: &Arc<Self>) -> Option<Chunk> {
///         let index = self.free.lock().unwrap().pop()?;
///         Some(Chunk { arena: self.clone(), index })
///     }
/// }
///
/// impl Drop for Arena {
///     fn drop(&mut self) {
///         // SAFETY: from the box in `new`; no chunk is left, as each has an `Arc` of it.
///         drop(unsafe { Box::from_raw(self.base.as_ptr().cast::<[[u8; 4096]; 16]>()) });
///     }
/// }
///
/// struct Chunk {
///     arena: Arc<Arena>,
///     index: usize,
/// }
///
/// impl Drop for Chunk {
///     fn drop(&mut self) {
///         self.arena.free.lock().unwrap().push(self.index); // after `ibv_dereg_mr`, not before
///     }
/// }
///
/// // SAFETY: the bytes are initialised and in the arena, not in the `Chunk`, which keeps the arena
/// // alive. They are always the same. Only the chunk's owner accesses them, and a
/// // `Chunk` that was given away has no methods that could be called.
/// unsafe impl Memory for Chunk {
///     type Sharing = Private;
///     type Protection = Writable;
///
///     fn bytes(&mut self) -> NonNull<[u8]> {
///         // SAFETY: the index is below 16.
///         let chunk = unsafe { self.arena.base.add(self.index) };
///         NonNull::slice_from_raw_parts(chunk.cast(), 4096)
///     }
/// }
///
/// # let proverbs::loopback::Pair { pd, .. } = proverbs::loopback::pair()?;
/// let arena = Arena::new();
/// let chunk = arena.take().ok_or("all chunks are in use")?;
/// let pool = pd.pool(1024).create_in(chunk)?;
/// assert_eq!(pool.count(), 4);
/// let chunk: Chunk = pool.destroy()?;
/// drop(chunk);
/// assert_eq!(arena.free.lock().unwrap().len(), 16);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Safety
/// From the first call of [`bytes`](Self::bytes) until the value is dropped, an implementation must
/// guarantee for the range that it returns:
///
/// - It is the same range at each call, part of one allocation, and outside the value: the value
///   may be moved before the first call, and again after the last use of the range. (A `Box` inside
///   the value is allowed, because this crate does not move the value while the range is in use.)
/// - It is valid for reads of its whole length from any thread, and for writes if `Protection` is
///   [`Writable`]. All of it is initialised.
/// - No code in this process writes it, or reads it if `Protection` is [`Writable`], except through
///   this value's methods, which are not called while the value is given away. If `Sharing` is
///   [`Private`], no other process writes it either.
/// - Only dropping the value ends these guarantees.
///
/// [R18.3]: https://docs.rs/proverbs/latest/proverbs/guide/rules/index.html#r18-3
/// [R18.13]: https://docs.rs/proverbs/latest/proverbs/guide/rules/index.html#r18-13
/// [`Pages`]: super::heap::Pages
/// [`DmaBuf`]: https://docs.rs/proverbs/latest/proverbs/ext/device_memory/struct.DmaBuf.html
/// [`Dm`]: https://docs.rs/proverbs/latest/proverbs/ext/device_memory/struct.Dm.html
/// [`PoolBuilder::create_in`]:
/// https://docs.rs/proverbs/latest/proverbs/memory/struct.PoolBuilder.html#method.create_in
/// [`RegionBuilder::create_in`]:
/// https://docs.rs/proverbs/latest/proverbs/memory/struct.RegionBuilder.html#method.create_in
/// [R6.3]: https://docs.rs/proverbs/latest/proverbs/guide/rules/index.html#r6-3
/// [R17.4]: https://docs.rs/proverbs/latest/proverbs/guide/rules/index.html#r17-4
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not `Memory`: bytes of this process, which stay where they are",
    label = "not a `Memory`",
    note = "safe code cannot access the bytes of a `DmaBuf`, a `Dm` or `Opaque` memory: `register_dmabuf`, `register_dm` and `opaque` register them as regions, which have pieces to post, keys for peers, and `as_ptr`",
    note = "give a `Vec` or `Box<[_]>` of integers or floats, a `Mapping` or a `SharedMapping`; `ExternalMemory::new` takes a pointer, a length and a keeper"
)]
pub unsafe trait Memory: Send + 'static {
    /// Whether other processes can write it: [`Private`] or [`Shared`].
    type Sharing: Sharing;
    /// Whether this process can write it: [`Writable`] or [`ReadOnly`].
    type Protection: Protection;

    /// Returns the bytes, which are then registered and accessed by the device.
    fn bytes(&mut self) -> NonNull<[u8]>;
}

/// Whether other processes can write a [`Memory`]: [`Private`] or [`Shared`].
pub trait Sharing: sealed::Sealed + 'static {}

/// [`Memory`] that only this process can write. If it becomes a pool, the pool's buffers are
/// slices.
#[derive(Debug)]
pub enum Private {}

/// [`Memory`] that other processes can write, such as a file, a memfd or shared memory. It can only
/// become a region, which is read and written by copies, but never a slice.
#[derive(Debug)]
pub enum Shared {}

impl Sharing for Private {}
impl Sharing for Shared {}

/// Whether this process can write a [`Memory`]: [`Writable`] or [`ReadOnly`].
///
/// Read-only memory is registered without LOCAL_WRITE ([R6.3]).
///
/// [R6.3]: https://docs.rs/proverbs/latest/proverbs/guide/rules/index.html#r6-3
pub trait Protection: sealed::Sealed + 'static {
    #[doc(hidden)]
    const IS_WRITABLE: bool;
}

/// [`Memory`] that this process can write.
#[derive(Debug)]
pub enum Writable {}

/// [`Memory`] that this process can only read, such as a file that was opened for reading.
#[derive(Debug)]
pub enum ReadOnly {}

impl Protection for Writable {
    const IS_WRITABLE: bool = true;
}

impl Protection for ReadOnly {
    const IS_WRITABLE: bool = false;
}

/// Memory that other code owns: a pointer, a length, and a keeper. The memory stays valid while the
/// keeper lives.
///
/// The keeper is dropped after `ibv_dereg_mr`, on the thread that drops the pool or region, or its
/// last buffer or piece.
///
/// ```
/// use proverbs::memory::ExternalMemory;
/// # use proverbs::prelude::*;
/// # use std::ptr::NonNull;
/// # struct Library(*mut u8);
/// # unsafe impl std::marker::Send for Library {}
/// # impl Library {
/// #     fn allocate(len: usize) -> Self { Library(Box::into_raw(vec![0; len].into_boxed_slice()).cast()) }
/// #     fn address(&self) -> *mut u8 { self.0 }
/// # }
/// # impl Drop for Library {
/// #     fn drop(&mut self) { drop(unsafe { Box::from_raw(std::slice::from_raw_parts_mut(self.0, 8192)) }) }
/// # }
/// # let proverbs::loopback::Pair { pd, .. } = proverbs::loopback::pair()?;
/// let library = Library::allocate(8192); // it frees the memory when it is dropped
/// let base = NonNull::new(library.address()).ok_or("no memory")?;
/// // SAFETY: 8192 initialised bytes, which the library owns and no other code uses.
/// let memory: ExternalMemory<Library> = unsafe { ExternalMemory::new(base, 8192, library) };
/// let pool = pd.pool(1024).create_in(memory)?;
/// let library: Library = pool.destroy()?.into_keeper();
/// # drop(library);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct ExternalMemory<K, S = Private, P = Writable> {
    // Invariants:
    // `bytes` satisfy the contract of [`Memory`] while `keeper` lives.
    bytes: NonNull<[u8]>,
    keeper: K,
    _is: PhantomData<fn() -> (S, P)>,
}

// SAFETY: the bytes move with their keeper, which is `Send`. They may be accessed from any thread
// (the contract of `new`).
unsafe impl<K: Send, S, P> Send for ExternalMemory<K, S, P> {}

impl<K, S, P> ExternalMemory<K, S, P>
where
    Self: Memory,
{
    /// Wraps the `len` bytes at `base`, which `keeper` keeps valid. The type declares their
    /// properties: `ExternalMemory<K>` is [`Private`] and [`Writable`].
    ///
    /// # Safety
    /// From this call until `keeper` is dropped, wherever it is moved:
    ///
    /// - The bytes are part of one allocation, valid for reads from any thread, and for writes if
    ///   `P` is [`Writable`]. All are initialised.
    /// - No code in this process writes them, or reads them if `P` is [`Writable`], except this
    ///   crate, and the owner of `keeper` after [`into_keeper`](Self::into_keeper). So they are not
    ///   in another [`Memory`] or behind a reference, unless all of these only read.
    /// - If `S` is [`Private`], no other process writes them.
    pub unsafe fn new(base: NonNull<u8>, len: usize, keeper: K) -> Self {
        // INVARIANT: required from the caller, in the same words.
        let bytes = NonNull::slice_from_raw_parts(base, len);
        ExternalMemory { bytes, keeper, _is: PhantomData }
    }
}

impl<K, S, P> ExternalMemory<K, S, P> {
    /// Returns the keeper, when no pool or region owns the memory.
    pub fn into_keeper(self) -> K {
        self.keeper
    }
}

impl_debug!([K, S, P] ExternalMemory<K, S, P>, |it| "ExternalMemory({} bytes)", it.bytes.len());

// SAFETY: `bytes` and `keeper` only come from `new`, whose caller guarantees each clause of
// `Memory` until the keeper is dropped: with this value, or after `into_keeper` returned it, when
// no pool and no region owns the memory. The range is the same at each call, and outside the value.
unsafe impl<K: Send + 'static, S: Sharing, P: Protection> Memory for ExternalMemory<K, S, P> {
    type Sharing = S;
    type Protection = P;

    fn bytes(&mut self) -> NonNull<[u8]> {
        self.bytes
    }
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::Private {}
    impl Sealed for super::Shared {}
    impl Sealed for super::Writable {}
    impl Sealed for super::ReadOnly {}
}
