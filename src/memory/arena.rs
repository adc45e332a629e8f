//! Arenas: one registered region that gives buffers of any length, and takes them back.

#![allow(unsafe_code)] // makes buffers of slots

use std::marker::PhantomData;
use std::ptr::NonNull;

use crate::allows::{Allows, call};
use crate::device::ProtectionDomain;
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

/// The most bytes that a buffer may have: whole lines of fewer than 2^31.
pub(super) const LONGEST: usize = (1 << 31) - ALIGN;

/// A region registered for local access only (`ibv_reg_mr` with `IBV_ACCESS_LOCAL_WRITE`), which
/// gives [buffers](Buf) of any length and takes them back.
///
/// Its buffers are those of a [`Pool`](crate::Pool): they are posted, completed, shared and dropped
/// in the same way, on any queue, and the region stays registered while one exists
/// ([R6.9](crate::guide::rules#r6-9), [R6.10](crate::guide::rules#r6-10)). Besides, they are
/// [split](Buf::split_off) and [joined](Buf::join).
///
/// ```
/// # use proverbs::prelude::*;
/// # let proverbs::loopback::Pair { pd, .. } = proverbs::loopback::pair()?;
/// let arena = pd.create_arena(1 << 20, 1000)?; // 1 MiB, for at most 1000 buffers at once
/// let header = arena.take(40).ok_or("no room")?;
/// let body = arena.take(70_000).ok_or("no room")?;
/// assert_eq!((header.len(), header.capacity()), (40, 64)); // whole cache lines
/// assert_eq!(arena.available(), (1 << 20) - header.capacity() - body.capacity());
/// let arena = arena.destroy().unwrap_err().into_object(); // buffers are in use: refused, and back
/// drop((header, body));
/// arena.destroy()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Cost
///
/// Taking and dropping allocate nothing. Each takes one lock, and splitting and joining do, too;
/// narrowing takes none. Posting and completing cost what they cost with a pool's buffers. A take
/// looks at a few numbers, whatever there is in the arena, unless room is about to run out: then it
/// looks at the free blocks of about its length. It also gives back what was dropped since the last
/// one.
///
/// A buffer's header is not beside its bytes, which begin at multiples of 64 and are rounded up to
/// such; what the device writes beyond a buffer touches no header. All headers are made with the
/// arena, their number is asked for, and each takes about 160 bytes (and the user's context).
///
/// # Fragmentation
///
/// What is dropped is joined with what is free on either side, at once; so an arena without buffers
/// is always one block. A take gives the beginning of a free block that is long enough and, within
/// a factor of 9/8, no longer than needed. It fails only if no free block is [long
/// enough](Self::longest), or all headers are in use. Lengths that differ and are kept for long may
/// leave gaps as in every heap, and nothing is moved; buffers that are as long as others fit their
/// gaps.
///
/// `M` is the [`Memory`] that the buffers are in.
pub struct Arena<C: 'static = (), M = Pages> {
    shared: SlabOwner<C>,
    /// The type of the region's memory.
    _memory: PhantomData<Invariant<M>>,
}

impl ProtectionDomain {
    /// Registers `len` bytes, of which at most `buffers` buffers are taken at once, for sends and
    /// receives (`ibv_reg_mr` with LOCAL_WRITE). The length is rounded up to a multiple of 64.
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
    /// [`ErrorKind::Limit`](crate::ErrorKind::Limit) if there are more than 2^31 - 1 buffers, or
    /// the region is longer than the device's `max_mr_size`. Otherwise
    /// [`ErrorKind::Os`](crate::ErrorKind::Os): EINVAL if it would be empty
    /// ([R6.4](crate::guide::rules#r6-4)) or have no buffers, ENOMEM if memory does not suffice; or
    /// [`ErrorKind::LockedMemory`](crate::ErrorKind::LockedMemory).
    pub fn create_arena(&self, len: usize, buffers: usize) -> Result<Arena, Error> {
        self.arena(buffers).contexts(|_| ()).create(len)
    }

    /// An arena of which at most `buffers` buffers are taken at once, to be created with the
    /// options of [`ArenaBuilder`]: a context in each header, and memory of the program's own.
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

/// An [`Arena`] to be created ([`ProtectionDomain::arena`]).
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
    /// Makes the contexts.
    make: F,
}

impl<'a> ArenaBuilder<'a> {
    /// Puts a context of the program's own in each header, which `contexts` makes of the header's
    /// index. A buffer has the context that the last use of its header left there. It is chosen
    /// once.
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
    /// Creates the arena, in `len` bytes that it allocates and registers (`ibv_reg_mr` with
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

    /// Creates the arena in `memory`, which is registered (`ibv_reg_mr` with LOCAL_WRITE). At its
    /// ends, bytes that are not in a whole line of 64 are left out. [`Arena::destroy`] gives the
    /// memory back.
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
    /// As for [`create_arena`](ProtectionDomain::create_arena), and EINVAL if the memory has no
    /// whole line of 64 bytes. The memory comes back in the error.
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
    /// Takes a buffer of `len` bytes; `None` if no free block is long enough, if all headers are in
    /// use, or if it is more than 2^31 - 64.
    ///
    /// Its capacity is `len` rounded up to a multiple of 64, at least 64. Its bytes are whatever
    /// their last use left there.
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
        if len > LONGEST {
            return None;
        }
        let slot = Slab::take_bytes(&self.shared, len)?;
        // SAFETY: the handle is new, and given up here.
        let mut buf = unsafe { Buf::of(slot) };
        buf.set_len(len);
        Some(buf)
    }

    /// The length in bytes.
    pub fn len(&self) -> usize {
        self.shared.region.len()
    }

    pub(crate) fn registered(&self) -> &Registered {
        &self.shared.region
    }

    /// Always false: empty regions are refused ([R6.4](crate::guide::rules#r6-4)).
    pub fn is_empty(&self) -> bool {
        false
    }

    /// The number of bytes that no buffer has.
    pub fn available(&self) -> usize {
        self.shared.blocks().map_or(0, |blocks| blocks.ranges.free())
    }

    /// The capacity of the longest buffer that can be taken now, if a header is free. It looks at
    /// the free blocks of about that length.
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
        self.shared.blocks().map_or(0, |blocks| blocks.ranges.longest().min(LONGEST))
    }

    /// The number of headers, which is the most buffers that there can be at once.
    pub fn count(&self) -> usize {
        self.shared.count()
    }

    /// The number of headers that no buffer has.
    pub fn spare(&self) -> usize {
        self.shared.blocks().map_or(0, |blocks| blocks.spare())
    }

    /// Deregisters the memory (`ibv_dereg_mr`) and gives it back. Buffers of the arena and other
    /// handles to it must be gone.
    ///
    /// [Blocks](crate::guide::shutdown) while the device does not answer.
    ///
    /// # Errors
    /// [`ErrorKind::Os`](crate::ErrorKind::Os), and the arena is given back: EBUSY if a buffer or
    /// another handle exists, or else the device's errno; then the memory stays registered
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
