//! Memory of the program's own: what pools and regions are made in.

#![allow(unsafe_code)] // the trait's contract is about memory

pub(crate) mod heap;
mod mapping;
#[cfg(all(test, not(miri)))]
mod mapping_tests;
mod shared_mapping;
#[cfg(all(test, feature = "loopback"))]
mod tests;

pub(crate) use crate::sys::mem::map;

pub use heap::{Number, Pages};
pub use map::HugePage;
pub use mapping::{MapOptions, Mapping};
pub use shared_mapping::SharedMapping;

use std::marker::PhantomData;
use std::ptr::NonNull;

use crate::memory::{Access, LocalRead, RemoteRead};

/// Memory that a program gives to a pool or region by value, and gets back from `destroy`
/// ([R18.3](crate::guide::rules#r18-3), [R18.13](crate::guide::rules#r18-13)).
///
/// | type | [`Sharing`](Memory::Sharing) | [`Protection`](Memory::Protection) |
/// |---|---|---|
/// | `Vec<T>`, `Box<[T]>`, `&'static mut [T]` of integers or floats | [`Private`] | [`Writable`] |
/// | `Arc<[T]>`, `&'static [T]` of the same | [`Private`] | [`ReadOnly`] |
/// | [`Pages`]: what `create_pool` and `register` allocate | [`Private`] | [`Writable`] |
/// | [`ExternalMemory`]: a pointer, a length and a keeper | as its maker says | as its maker says |
///
/// Memory of which the processor has no bytes is none of these: see
/// [`DmaBuf`](crate::memory::DmaBuf) and [`Dm`](crate::memory::Dm).
///
/// What is private is cut into a pool ([`create_in`](crate::memory::PoolBuilder::create_in)), whose
/// buffers are slices; or it is one region
/// ([`create_in`](crate::memory::RegionBuilder::create_in)), which has copies and cells. What other
/// processes can write makes regions only, since a `&[u8]` promises that nobody writes. What is
/// read-only makes regions that nobody writes: not this program, not the device, no peer
/// ([R6.3](crate::guide::rules#r6-3)).
///
/// A vector's first and last page are shared with other data of the heap, and registrations pin
/// whole pages. That matters to programs that fork ([R17.4](crate::guide::rules#r17-4)).
///
/// ```
/// # use proverbs::prelude::*;
/// # let proverbs::loopback::Pair { pd, .. } = proverbs::loopback::pair()?;
/// let table: Vec<u64> = (0..1024).collect();
/// let region = pd.region::<RemoteRead>().create_in(table)?; // 8 KiB, for peers to read
/// assert_eq!(region.len(), 8192);
/// let table: Vec<u64> = region.destroy()?;              // and back
/// assert_eq!(table[1023], 1023);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # A type of one's own
///
/// An implementation is `unsafe`, because the device writes to whatever the type says its bytes
/// are. A piece of an allocator's arena, which the arena takes back when it is dropped:
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
/// // SAFETY: the pointer is to memory that the arena owns, and chunks are handed out under a lock.
/// unsafe impl std::marker::Send for Arena {}
/// // SAFETY: a shared arena hands out chunks, and takes them back, under the lock of `free`.
/// unsafe impl Sync for Arena {}
///
/// impl Arena {
///     fn new() -> Arc<Self> {
///         let chunks: Box<[[u8; 4096]; 16]> = Box::new([[0; 4096]; 16]);
///         // A raw pointer, made once: the box is taken apart, so nothing else claims the bytes.
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
///         // SAFETY: made of this box in `new`; no chunk is left, as each has an `Arc` of the arena.
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
/// // alive. They are always the same ones. Nothing but the chunk's owner touches them, and a
/// // `Chunk` that was given away has no methods that anybody could call.
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
/// Of the range that [`bytes`](Self::bytes) returns an implementation promises, from the call until
/// the value is dropped:
///
/// - It is the same range at each call, of one allocation, and outside the value: the value may be
///   moved before the first call, and again after the range was used last. (A `Box` inside the
///   value is fine. Moving the value while the range is in use is what this crate does not do.)
/// - It is valid for reads of its whole length from any thread, and where `Protection` is
///   [`Writable`] for writes. All of it is initialised.
/// - Nothing in this process writes it, and where `Protection` is [`Writable`] nothing reads it,
///   other than through this value's methods, which nobody calls while the value is given away.
///   Where `Sharing` is [`Private`], no other process writes it either.
/// - Dropping the value is the only way to end this.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not `Memory`: bytes of this process, which stay where they are",
    label = "not a `Memory`",
    note = "a `DmaBuf`, a `Dm` and `Opaque` memory have no bytes for safe code: `register_dmabuf`, `register_dm` and `opaque` make regions of them, whose pieces are posted and which peers reach, and which have `as_ptr`",
    note = "give a `Vec` or `Box<[_]>` of integers or floats, a `Mapping` or a `SharedMapping`; `ExternalMemory::new` takes a pointer, a length and a keeper"
)]
pub unsafe trait Memory: Send + 'static {
    /// Whether other processes can write it: [`Private`] or [`Shared`].
    type Sharing: Sharing;
    /// Whether this process can write it: [`Writable`] or [`ReadOnly`].
    type Protection: Protection;

    /// The bytes: to be registered, and to be touched by the device from then on.
    fn bytes(&mut self) -> NonNull<[u8]>;
}

/// Whether other processes can write a [`Memory`]: [`Private`] or [`Shared`].
pub trait Sharing: sealed::Sealed + 'static {}

/// [`Memory`] that only this process can write: buffers of it are slices.
#[derive(Debug)]
pub enum Private {}

/// [`Memory`] that other processes can write: a file, a memfd, shared memory. It makes regions,
/// which are read and written by copies, and never a slice.
#[derive(Debug)]
pub enum Shared {}

impl Sharing for Private {}
impl Sharing for Shared {}

/// Whether this process can write a [`Memory`]: [`Writable`] or [`ReadOnly`].
///
/// Read-only memory is registered without LOCAL_WRITE ([R6.3](crate::guide::rules#r6-3)).
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

/// [`Sharing`] of memory whose bytes may be a slice ([R18.2](crate::guide::rules#r18-2)).
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "other processes can write this memory, so its buffers cannot be slices",
    label = "memory whose `Sharing` is `{Self}`",
    note = "register it as a region, `pd.region::<RemoteRead>().create_in(memory)`, which has `read_at` and `write_at`; or make the pool in private memory (R18.2)"
)]
pub trait CanBeSlices: Sharing {}
impl CanBeSlices for Private {}

/// [`Protection`] of memory that may be written ([R6.3](crate::guide::rules#r6-3)).
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "this memory cannot be written",
    label = "memory whose `Protection` is `{Self}`",
    note = "map it writable; a region of read-only memory has `source`, `read_at` and `remote`"
)]
pub trait CanBeWritten: Protection {}
impl CanBeWritten for Writable {}

/// What has a region of which pieces can be posted: [`Memory`] that can be written, and what has no
/// bytes for the processor or for safe code, such as a [`DmaBuf`](crate::memory::DmaBuf) and
/// [`Opaque`](crate::memory::Opaque) memory ([R6.3](crate::guide::rules#r6-3)).
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "no piece of this region can be posted, since its memory cannot be written",
    label = "a region in `{Self}`",
    note = "map it writable; a region of read-only memory has `source`, `read_at` and `remote`"
)]
pub trait HasPieces: 'static {}

#[diagnostic::do_not_recommend]
impl<M: Memory<Protection: CanBeWritten>> HasPieces for M {}

/// Memory whose regions have pieces that can be sent and never filled: no device writes it.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "a device may write this region, so no piece of it is only a source",
    label = "a region in `{Self}`",
    note = "`source` is for read-only memory; a part of a region that can be written is posted as a `piece` (R6.3)"
)]
pub trait HasSources: 'static {}

#[diagnostic::do_not_recommend]
impl<M: Memory<Protection = ReadOnly>> HasSources for M {}

/// [`Memory`] of which slices may be shared: [`Private`] and [`ReadOnly`], so that nobody writes
/// it.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "the bytes of this region can change, so no `SharedBuf` can show them",
    label = "a region in `{Self}`",
    note = "`share` is for private read-only memory, like an `Arc<[u8]>`; a part of a region that can be written is posted as a `piece` (R18.2)"
)]
pub trait NeverChanges: sealed::NeverChanges + 'static {}

#[diagnostic::do_not_recommend]
impl<M: Memory<Sharing = Private, Protection = ReadOnly>> NeverChanges for M {}

/// `Self: RegistersAs<A>`: memory with this [`Protection`] may be registered with the rights `A`
/// ([R6.3](crate::guide::rules#r6-3), [R6.1](crate::guide::rules#r6-1)).
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "`{A}` needs memory that can be written",
    label = "memory whose `Protection` is `{Self}`",
    note = "a right to write includes LOCAL_WRITE, and LOCAL_WRITE needs writable memory, as MW_BIND does: register it as `RemoteRead`, or as `LocalRead` for this program alone, or map it writable"
)]
pub trait RegistersAs<A: Access>: Protection {}
impl<A: Access> RegistersAs<A> for Writable {}
impl RegistersAs<LocalRead> for ReadOnly {}
impl RegistersAs<RemoteRead> for ReadOnly {}

/// For what has memory of a type: no subtype takes its place. By the type the memory comes back,
/// and is slices or not.
pub(crate) type Invariant<M> = fn(M) -> M;

/// Memory that something else owns: a pointer, a length, and a keeper. While the keeper lives the
/// memory stays.
///
/// What it keeps is dropped after `ibv_dereg_mr`, wherever the last buffer or piece goes: so it may
/// be dropped on another thread.
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
/// // SAFETY: 8192 initialised bytes, which the library owns and nobody else uses.
/// let memory: ExternalMemory<Library> = unsafe { ExternalMemory::new(base, 8192, library) };
/// let pool = pd.pool(1024).create_in(memory)?;
/// let library: Library = pool.destroy()?.into_keeper();
/// # drop(library);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct ExternalMemory<K, S = Private, P = Writable> {
    // Invariants:
    // `bytes` are as [`Memory`] asks while `keeper` lives.
    bytes: NonNull<[u8]>,
    keeper: K,
    _is: PhantomData<fn() -> (S, P)>,
}

// SAFETY: the bytes go with their keeper, which is `Send`. They may be touched from any thread (the
// contract of `new`).
unsafe impl<K: Send, S, P> Send for ExternalMemory<K, S, P> {}

impl<K, S, P> ExternalMemory<K, S, P>
where
    Self: Memory,
{
    /// The `len` bytes at `base`, which `keeper` keeps. What they are is said in the type:
    /// `ExternalMemory<K>` is [`Private`] and [`Writable`].
    ///
    /// # Safety
    /// From this call until `keeper` is dropped, wherever it is moved:
    ///
    /// - The bytes are of one allocation, valid for reads from any thread, and if `P` is
    ///   [`Writable`] for writes. All are initialised.
    /// - Nothing in this process writes them, nor reads them if `P` is [`Writable`], but this
    ///   crate, and whoever holds `keeper` after [`into_keeper`](Self::into_keeper). So they are in
    ///   no other [`Memory`] and behind no reference, unless all only read.
    /// - If `S` is [`Private`], no other process writes them.
    pub unsafe fn new(base: NonNull<u8>, len: usize, keeper: K) -> Self {
        // INVARIANT: asked of the caller, in the same words.
        let bytes = NonNull::slice_from_raw_parts(base, len);
        ExternalMemory { bytes, keeper, _is: PhantomData }
    }
}

impl<K, S, P> ExternalMemory<K, S, P> {
    /// The keeper, once the memory is no pool's or region's.
    pub fn into_keeper(self) -> K {
        self.keeper
    }
}

impl_debug!([K, S, P] ExternalMemory<K, S, P>, |it| "ExternalMemory({} bytes)", it.bytes.len());

// SAFETY: `bytes` and `keeper` are from `new` alone, whose caller promises what `Memory` asks for,
// clause by clause, until the keeper is dropped: with this value, or after `into_keeper` took it
// out, when no pool and no region has the memory. The range is the same at each call, and outside
// the value.
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

    /// A program that could say so of its own memory would share bytes that change.
    pub trait NeverChanges {}
    impl<M: super::Memory<Sharing = super::Private, Protection = super::ReadOnly>> NeverChanges for M {}
}
