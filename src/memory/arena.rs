//! Arenas: buffers of any length in one registered region.

#![allow(unsafe_code)] // makes buffers of slots

use std::marker::PhantomData;
use std::ptr::NonNull;

use crate::allows::{Allows, call};
use crate::device::ProtectionDomain;
use crate::memory::blocks::LONGEST;
use crate::memory::own::Invariant;
use crate::memory::own::heap::Pages;
use crate::memory::pool::{close, no_headers, within};
use crate::memory::ranges::ALIGN;
use crate::memory::registered::{AccessFlags, Registered};
use crate::memory::slab::{Headers, Slab, SlabOwner};
use crate::memory::{Buf, Memory};
use crate::sys::control::Holds;
use crate::terms::error::{Error, Refused};

const VERB: &str = "ibv_reg_mr";

/// A heap of [buffers](Buf) of any length in one registered region (`ibv_reg_mr` with
/// `IBV_ACCESS_LOCAL_WRITE`).
///
/// Its buffers work like those of a [`Pool`](crate::Pool): they are posted, completed, shared and
/// dropped in the same way, on any queue. They can also be [split](Buf::split_off) and
/// [joined](Buf::join). The region stays registered until the arena and all of its buffers are
/// dropped ([R6.9](crate::guide::rules#r6-9), [R6.10](crate::guide::rules#r6-10)).
///
/// ```
/// # use proverbs::prelude::*;
/// # let proverbs::loopback::Pair { pd, .. } = proverbs::loopback::pair()?;
/// let arena = pd.create_arena(1 << 20, 1000)?; // 1 MiB, for at most 1000 buffers at once
/// let header = arena.take(40).ok_or("no room")?;
/// let body = arena.take(70_000).ok_or("no room")?;
/// assert_eq!((header.len(), header.capacity()), (40, 64)); // whole cache lines
/// assert_eq!(arena.available(), (1 << 20) - header.capacity() - body.capacity());
/// let arena = arena.destroy().unwrap_err().into_object(); // fails: buffers are in use
/// drop((header, body));
/// arena.destroy()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Cost
///
/// Taking or dropping a buffer does not allocate, with one exception that [`Pool`](crate::Pool)
/// describes. Posting and completing cost as much as with a pool's buffers. The arena keeps the
/// bytes of a dropped buffer of up to 64 KiB for the next buffer of the same length. Such a take
/// does not lock. It costs about 37 instructions, and so does such a drop (see `docs/costs.md`).
/// The arena keeps about 64 dropped buffers this way. Any other dropped buffer is merged with its
/// free neighbours, and the kept ones are merged when a take finds no room. All other takes,
/// splitting, joining and widening lock the arena briefly; a drop never waits for the lock. A take
/// searches the free blocks of similar length only if no longer block is free. Otherwise its cost
/// does not depend on the number of buffers.
///
/// The headers are separate from the bytes, so a device that writes past the end of a buffer does
/// not overwrite a header. Each buffer starts at a multiple of 64, and its size is rounded up to a
/// multiple of 64. All headers are allocated with the arena. Each takes about 160 bytes, plus your
/// context.
///
/// # Fragmentation
///
/// Freed bytes are merged with free neighbours on both sides, so when no buffers are in use, a take
/// can use the whole arena as one block. A take uses the start of a free block that is long enough,
/// usually of about the shortest one. It fails only if no free block is [long
/// enough](Self::longest), or if all headers are in use. As in every heap, long-lived buffers of
/// different lengths may leave gaps, and buffers are never moved. A buffer of the same length fits
/// a gap exactly.
///
/// `M` is the [`Memory`] that contains the buffers.
pub struct Arena<C: 'static = (), M = Pages> {
    shared: SlabOwner<C>,
    /// The type of the region's memory.
    _memory: PhantomData<Invariant<M>>,
}

impl ProtectionDomain {
    /// Allocates and registers `len` bytes for sends and receives, with at most `buffers` buffers
    /// in use at a time (`ibv_reg_mr` with LOCAL_WRITE). The length is rounded up to a multiple of
    /// 64.
    ///
    /// [Blocks](crate::guide::shutdown) while the device does not answer.
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// # let proverbs::loopback::Pair { pd, .. } = proverbs::loopback::pair()?;
    /// let arena = pd.create_arena(1 << 20, 64)?;
    /// assert_eq!((arena.len(), arena.available(), arena.count()), (1 << 20, 1 << 20, 64));
    /// assert!(pd.create_arena(1 << 20, 0).is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// - [`ErrorKind::Limit`](crate::ErrorKind::Limit): more than 2^31 - 1 buffers, or a region
    ///   longer than the device's `max_mr_size`.
    /// - [`ErrorKind::Os`](crate::ErrorKind::Os): EINVAL if `len`
    ///   ([R6.4](crate::guide::rules#r6-4)) or `buffers` is 0; ENOMEM if there is not enough
    ///   memory.
    /// - [`ErrorKind::LockedMemory`](crate::ErrorKind::LockedMemory): the limit of locked memory is
    ///   too low.
    pub fn create_arena(&self, len: usize, buffers: usize) -> Result<Arena, Error> {
        self.arena(buffers).contexts(|_| ()).create(len)
    }

    /// Starts building an arena with at most `buffers` buffers in use at a time. [`ArenaBuilder`]
    /// can put your own context in each header, and use your own memory.
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// # let proverbs::loopback::Pair { pd, .. } = proverbs::loopback::pair()?;
    /// let arena = pd.arena(64).contexts(|index| index).create(1 << 20)?;
    /// assert_eq!((arena.len(), arena.count()), (1 << 20, 64));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn arena(&self, buffers: usize) -> ArenaBuilder<'_> {
        ArenaBuilder { pd: self, buffers, make: |_| () }
    }
}

/// Builds an [`Arena`]. Returned by [`ProtectionDomain::arena`].
///
/// ```
/// # use proverbs::prelude::*;
/// use proverbs::memory::MapOptions;
/// # let proverbs::loopback::Pair { pd, .. } = proverbs::loopback::pair()?;
/// let plain = pd.create_arena(1 << 20, 64)?; // short for `arena(64).create(1 << 20)`
/// let tagged = pd.arena(3).contexts(|_| None::<String>).create(4096)?;
/// let mapped = pd.arena(64).create_in(MapOptions::new().anonymous(1 << 20)?)?;
/// assert_eq!((plain.count(), tagged.count(), mapped.len()), (64, 3, 1 << 20));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "`create` or `create_in` creates the arena"]
pub struct ArenaBuilder<'a, F = fn(usize)> {
    pd: &'a ProtectionDomain,
    buffers: usize,
    /// Creates the contexts.
    make: F,
}

impl<'a> ArenaBuilder<'a> {
    /// Puts your own context in each header: `contexts` receives the header's index and returns its
    /// context. A new buffer has the context that the last use of its header left there. This
    /// method can be called once.
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// # let proverbs::loopback::Pair { pd, .. } = proverbs::loopback::pair()?;
    /// let arena = pd.arena(3).contexts(|_| None).create(4096)?;
    /// let mut buf: Buf<Option<String>> = arena.take(100).ok_or("no room")?;
    /// *buf.context_mut() = Some("the answer to 17".into()); // comes back with its completion
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn contexts<C: 'static, F: FnMut(usize) -> C>(self, contexts: F) -> ArenaBuilder<'a, F> {
        ArenaBuilder { pd: self.pd, buffers: self.buffers, make: contexts }
    }
}

impl<C: 'static, F: FnMut(usize) -> C> ArenaBuilder<'_, F> {
    /// Creates the arena in `len` bytes that it allocates and registers (`ibv_reg_mr` with
    /// LOCAL_WRITE). The length is rounded up to a multiple of 64.
    ///
    /// [Blocks](crate::guide::shutdown) while the device does not answer.
    ///
    /// # Errors
    /// As for [`create_arena`](ProtectionDomain::create_arena).
    #[doc(alias = "ibv_reg_mr")]
    pub fn create(self, len: usize) -> Result<Arena<C>, Error> {
        let whole = len.checked_next_multiple_of(ALIGN).unwrap_or(len);
        Ok(self.create_in(Pages::new(VERB, whole)?)?)
    }

    /// Creates the arena in `memory`, which it registers (`ibv_reg_mr` with LOCAL_WRITE). The arena
    /// uses only whole, aligned blocks of 64 bytes, so a few bytes at the ends of `memory` may stay
    /// unused. [`Arena::destroy`] returns the memory.
    ///
    /// [Blocks](crate::guide::shutdown) while the device does not answer.
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// use proverbs::memory::MapOptions;
    /// # let proverbs::loopback::Pair { pd, .. } = proverbs::loopback::pair()?;
    /// let memory = MapOptions::new().anonymous(1 << 20)?; // or of huge pages, on a NUMA node
    /// let arena = pd.arena(64).create_in(memory)?;
    /// let buf = arena.take(100_000).ok_or("no room")?;
    /// drop(buf);
    /// let memory = arena.destroy()?;
    /// # drop(memory);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As for [`create_arena`](ProtectionDomain::create_arena), and EINVAL if the memory does not
    /// contain an aligned block of 64 bytes. The error contains the memory.
    #[doc(alias = "ibv_reg_mr")]
    pub fn create_in<M: Memory>(self, memory: M) -> Result<Arena<C, M>, Refused<M>>
    where
        Arena<C, M>: Allows<call::CreateIn>,
    {
        let ArenaBuilder { pd, buffers, make } = self;
        let choose = |bytes: NonNull<[u8]>| {
            within("number of buffers", buffers)?;
            let lead = bytes.addr().get().wrapping_neg() % ALIGN;
            let len = bytes.len().saturating_sub(lead) / ALIGN * ALIGN;
            if len == 0 || buffers == 0 {
                let asked = format!("an arena of {buffers} buffers in {} bytes", bytes.len());
                return Err(Error::os(VERB, libc::EINVAL, asked));
            }
            let headers = Headers::of_arena(len, buffers).map_err(|_| no_headers(buffers))?;
            Ok((lead, len, headers))
        };
        let access = AccessFlags::LOCAL_WRITE;
        let (region, headers) = Registered::new(pd, memory, access, Holds::Buffers, choose)?;
        Ok(Arena { shared: Slab::create(region, 0, headers, make), _memory: PhantomData })
    }
}

ruled_by! { CreateIn: [C: 'static, M: Memory] Arena<C, M>, M; }

impl_debug!([F] ArenaBuilder<'_, F>, |it| "ArenaBuilder({} buffers)", it.buffers);

impl<C, M> Arena<C, M> {
    /// Takes a buffer of `len` bytes. Returns `None` if no free block is long enough, if all
    /// headers are in use, or if `len` is more than 2^31 - 64.
    ///
    /// The capacity is `len` rounded up to a multiple of 64, at least 64. The bytes are left over
    /// from their last use.
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// # let proverbs::loopback::Pair { pd, .. } = proverbs::loopback::pair()?;
    /// let arena = pd.create_arena(192, 8)?;
    /// let [one, two] = [arena.take(100), arena.take(64)];
    /// assert!(one.is_some_and(|one| (one.len(), one.capacity()) == (100, 128)));
    /// assert!(two.is_some() && arena.take(129).is_none());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn take(&self, len: usize) -> Option<Buf<C>> {
        let slot = Slab::take_bytes(&self.shared, len)?;
        // SAFETY: the handle is new, and given up here.
        Some(unsafe { Buf::of(slot) })
    }

    /// The length of the region in bytes.
    pub fn len(&self) -> usize {
        self.shared.region.len()
    }

    pub(crate) fn registered(&self) -> &Registered {
        &self.shared.region
    }

    /// Always false: empty regions are rejected ([R6.4](crate::guide::rules#r6-4)).
    pub fn is_empty(&self) -> bool {
        false
    }

    /// The number of free bytes.
    pub fn available(&self) -> usize {
        self.shared.merged().map_or(0, |blocks| blocks.ranges.free())
    }

    /// The capacity of the longest buffer that can be taken now, if a header is free. Each call
    /// searches the free blocks of about that length.
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// # let proverbs::loopback::Pair { pd, .. } = proverbs::loopback::pair()?;
    /// let arena = pd.create_arena(4096, 8)?;
    /// let bufs: Vec<_> = (0..4).map_while(|_| arena.take(1024)).collect();
    /// assert_eq!((bufs.len(), arena.longest()), (4, 0));
    /// drop(bufs.into_iter().step_by(2).collect::<Vec<_>>()); // and with them, the others
    /// assert_eq!((arena.available(), arena.longest()), (4096, 4096));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn longest(&self) -> usize {
        self.shared.merged().map_or(0, |blocks| blocks.ranges.longest().min(LONGEST))
    }

    /// The number of headers: the maximum number of buffers at a time.
    pub fn count(&self) -> usize {
        self.shared.count()
    }

    /// The number of free headers.
    pub fn spare(&self) -> usize {
        self.shared.merged().map_or(0, |blocks| blocks.spare())
    }

    /// Deregisters the memory (`ibv_dereg_mr`) and returns it. All buffers and all other handles of
    /// the arena must be dropped first.
    ///
    /// [Blocks](crate::guide::shutdown) while the device does not answer.
    ///
    /// # Errors
    /// [`ErrorKind::Os`](crate::ErrorKind::Os), with the arena: EBUSY if a buffer or another handle
    /// exists, otherwise the device's errno. The memory then stays registered
    /// ([R6.9](crate::guide::rules#r6-9)).
    pub fn destroy(mut self) -> Result<M, Refused<Self>>
    where
        M: Memory,
    {
        close(&mut self.shared, "buffers of the arena are in use")
            .map_err(|error| Refused::new(self, error))
    }

    pub(crate) fn shared(&self) -> &Slab<C> {
        &self.shared
    }
}

impl_debug!([C, M] Arena<C, M>, |it|
    "Arena({} of {} bytes and {} of {} headers free)",
    it.available(), it.len(), it.spare(), it.count());

impl<C, M> Clone for Arena<C, M> {
    /// Another handle to the same memory.
    fn clone(&self) -> Self {
        Arena { shared: self.shared.clone(), _memory: PhantomData }
    }
}
