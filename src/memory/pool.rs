//! Pools: one registered region divided into buffers of the same size.

#![allow(unsafe_code)] // makes buffers of slots

use std::marker::PhantomData;
use std::ptr::NonNull;

use crate::allows::{Allows, RuledBy, call};
use crate::device::ProtectionDomain;
use crate::memory::own::Invariant;
use crate::memory::own::heap::Pages;
use crate::memory::registered::{AccessFlags, Registered};
use crate::memory::slab::{Headers, Slab, SlabOwner};
use crate::memory::{Buf, CanBeSlices, CanBeWritten, Memory};
use crate::sys::control::Holds;
use crate::terms::error::{Error, Refused};

/// A slab of equally sized buffers in one registered region (`ibv_reg_mr` with
/// `IBV_ACCESS_LOCAL_WRITE`).
///
/// [`take`](Self::take) returns a free buffer and dropping the buffer frees it. Neither allocates,
/// with one exception: a take that finds no free buffer [searches](crate::qp#how-a-queue-pair-ends)
/// for the buffers of ended queue pairs. Threads can share a pool. Dropping a buffer never waits.
/// Two threads that take at the same time may wait for each other, for a few instructions or for
/// such a search. You do not have to drop a buffer to reuse it: you can post a buffer again as soon
/// as a completion has returned it.
///
/// Peers cannot access a pool. Use a [`MemoryRegion`](crate::MemoryRegion) for memory that peers
/// read or write.
///
/// The region stays registered until the pool and all of its buffers are dropped, including buffers
/// that the device owns ([R6.9](crate::guide::rules#r6-9), [R6.10](crate::guide::rules#r6-10)).
///
/// ```
/// # use proverbs::prelude::*;
/// # let proverbs::loopback::Pair { pd, .. } = proverbs::loopback::pair()?;
/// let pool = pd.create_pool(4, 100)?;
/// let buf = pool.take().ok_or("no buffer")?;
/// // Sizes are rounded up to multiples of 8.
/// assert_eq!((buf.capacity(), pool.count(), pool.available()), (104, 4, 3));
/// let pool = pool.destroy().unwrap_err().into_object(); // fails: `buf` is in use
/// drop(buf);
/// pool.destroy()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// `M` is the [`Memory`] that contains the buffers.
pub struct Pool<C: 'static = (), M = Pages> {
    shared: SlabOwner<C>,
    /// The type of the region's memory.
    _memory: PhantomData<Invariant<M>>,
}

/// Builds a [`Pool`]. Returned by [`ProtectionDomain::pool`].
///
/// ```
/// # use proverbs::prelude::*;
/// # let proverbs::loopback::Pair { pd, .. } = proverbs::loopback::pair()?;
/// let plain = pd.create_pool(64, 4096)?; // short for `pool(4096).create(64)`
/// let named = pd.pool(64).contexts(|index| format!("buffer {index}")).create(3)?;
/// let own = pd.pool(1024).create_in(vec![0u64; 1000])?;
/// assert_eq!((plain.count(), named.count(), own.count()), (64, 3, 7));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "`create` or `create_in` creates the pool"]
pub struct PoolBuilder<'a, F = fn(usize)> {
    pd: &'a ProtectionDomain,
    size: usize,
    /// Creates the contexts.
    make: F,
}

impl<'a> PoolBuilder<'a> {
    pub(crate) fn of(pd: &'a ProtectionDomain, size: usize) -> Self {
        PoolBuilder { pd, size, make: |_| () }
    }

    /// Puts your own context in each buffer: `contexts` receives the buffer's index and returns its
    /// context. Use the context where a C program would use `wr_id`. This method can be called
    /// once.
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// # let proverbs::loopback::Pair { pd, .. } = proverbs::loopback::pair()?;
    /// let pool = pd.pool(64).contexts(|index| format!("buffer {index}")).create(3)?;
    /// let buf: Buf<String> = pool.take().ok_or("no buffer")?;
    /// // It stays with the buffer through posts and completions.
    /// assert!(buf.context().starts_with("buffer "));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn contexts<C: 'static, F: FnMut(usize) -> C>(self, contexts: F) -> PoolBuilder<'a, F> {
        PoolBuilder { pd: self.pd, size: self.size, make: contexts }
    }
}

impl<C: 'static, F: FnMut(usize) -> C> PoolBuilder<'_, F> {
    /// Creates the pool, with `count` buffers in memory that it allocates and registers
    /// (`ibv_reg_mr` with LOCAL_WRITE).
    ///
    /// [Blocks](crate::guide::shutdown) while the device does not answer.
    ///
    /// # Errors
    /// As for [`create_pool`](ProtectionDomain::create_pool).
    #[doc(alias = "ibv_reg_mr")]
    pub fn create(self, count: usize) -> Result<Pool<C>, Error> {
        let size = buffer_size(self.size)?;
        within("number of buffers", count)?;
        Ok(self.create_in(Pages::new(VERB, size * count)?)?)
    }

    /// Creates the pool in `memory`, which it registers (`ibv_reg_mr` with LOCAL_WRITE) and divides
    /// into as many buffers as fit. The first one starts at a multiple of 8, so that each can hold
    /// the result of an atomic ([R4.1](crate::guide::rules#r4-1)). [`Pool::destroy`] returns the
    /// memory.
    ///
    /// [Blocks](crate::guide::shutdown) while the device does not answer.
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// # let proverbs::loopback::Pair { pd, .. } = proverbs::loopback::pair()?;
    /// let memory: Box<[u64]> = vec![7; 1000].into();
    /// let pool = pd.pool(1024).create_in(memory)?;
    /// assert_eq!(pool.count(), 7); // of 1024 bytes each
    /// assert_eq!(pool.take().ok_or("no buffer")?[..8], 7u64.to_ne_bytes());
    /// let memory: Box<[u64]> = pool.destroy()?;
    /// # drop(memory);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As for [`create_pool`](ProtectionDomain::create_pool), and EINVAL if no buffer fits. The
    /// error contains the memory.
    #[doc(alias = "ibv_reg_mr")]
    pub fn create_in<M: Memory>(self, memory: M) -> Result<Pool<C, M>, Refused<M>>
    where
        Pool<C, M>: Allows<call::CreateIn>,
    {
        let size = or_refused!(memory, buffer_size(self.size));
        let choose = |bytes: NonNull<[u8]>| {
            let lead = bytes.addr().get().wrapping_neg() % ALIGN;
            let count = bytes.len().saturating_sub(lead) / size;
            within("number of buffers", count)?;
            if count == 0 {
                let asked = format!("a buffer of {size} bytes in {} bytes", bytes.len());
                return Err(Error::os(VERB, libc::EINVAL, asked));
            }
            let headers = Headers::of_pool(count).map_err(|_| no_headers(count))?;
            Ok((lead, count * size, headers))
        };
        let access = AccessFlags::LOCAL_WRITE;
        let (region, headers) = Registered::new(self.pd, memory, access, Holds::Buffers, choose)?;
        let shared = Slab::create(region, size as u32, headers, self.make);
        Ok(Pool { shared, _memory: PhantomData })
    }
}

allows! {
    [P: RuledBy<call::CreateIn, Part: Memory<Sharing: CanBeSlices, Protection: CanBeWritten>>] P:
        CreateIn;
}

ruled_by! { CreateIn:
    [C: 'static, M: Memory] Pool<C, M>, M;
}

impl_debug!([F] PoolBuilder<'_, F>, |it| "PoolBuilder(buffers of {} bytes)", it.size);

/// Every buffer starts at a multiple of 8 bytes, so that it is aligned for the result of an atomic.
const ALIGN: usize = 8;

const VERB: &str = "ibv_reg_mr";

pub(super) fn within(what: &'static str, asked: usize) -> Result<(), Error> {
    Error::at_most(VERB, what, asked as u64, u32::MAX / 2)
}

/// The error if there is no memory for the headers of `count` buffers.
pub(super) fn no_headers(count: usize) -> Error {
    Error::os(VERB, libc::ENOMEM, format!("no memory for the headers of {count} buffers"))
}

/// The size of a buffer that can hold `size` bytes.
fn buffer_size(size: usize) -> Result<usize, Error> {
    within("buffer size", size)?;
    Ok(size.max(ALIGN).next_multiple_of(ALIGN))
}

impl<C, M> Pool<C, M> {
    /// Takes a free buffer, with its length set to its capacity. Returns `None` if all are in use.
    ///
    /// The bytes are left over from their last use.
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// # let proverbs::loopback::Pair { pd, .. } = proverbs::loopback::pair()?;
    /// let pool = pd.create_pool(1, 64)?;
    /// let buf = pool.take();
    /// assert!(buf.is_some() && pool.take().is_none());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn take(&self) -> Option<Buf<C>> {
        let slot = Slab::take(&self.shared)?;
        // SAFETY: the handle is new, and given up here.
        Some(unsafe { Buf::of(slot) })
    }

    /// The number of buffers, free or in use.
    pub fn count(&self) -> usize {
        self.shared.count()
    }

    /// The number of free buffers. Each call counts them, and threads that take a buffer wait until
    /// it has finished.
    pub fn available(&self) -> usize {
        self.shared.free_slots()
    }

    /// Deregisters the memory (`ibv_dereg_mr`) and returns it. All buffers and all other handles of
    /// the pool must be dropped first.
    ///
    /// [Blocks](crate::guide::shutdown) while the device does not answer.
    ///
    /// # Errors
    /// [`ErrorKind::Os`](crate::ErrorKind::Os), with the pool: EBUSY if a buffer or another handle
    /// exists, otherwise the device's errno. The memory then stays registered
    /// ([R6.9](crate::guide::rules#r6-9)).
    pub fn destroy(mut self) -> Result<M, Refused<Self>>
    where
        M: Memory,
    {
        close(&mut self.shared, "buffers of the pool are in use")
            .map_err(|error| Refused::new(self, error))
    }

    pub(crate) fn shared(&self) -> &Slab<C> {
        &self.shared
    }

    pub(crate) fn registered(&self) -> &Registered {
        &self.shared.region
    }

    /// The address of the first header, which identifies the pool.
    pub(crate) fn slots(&self) -> usize {
        self.shared.first().addr()
    }
}

/// Deregisters and returns the memory of slots that have no other reference.
pub(super) fn close<C, M: Memory>(
    shared: &mut SlabOwner<C>,
    in_use: &'static str,
) -> Result<M, Error> {
    const VERB: &str = "ibv_dereg_mr";
    let region = shared.region().ok_or_else(|| Error::os(VERB, libc::EBUSY, in_use))?;
    region.close_for(VERB).map(|()| region.give_back())
}

impl_debug!([C, M] Pool<C, M>, |it| "Pool({} of {} buffers free)", it.available(), it.count());

impl<C, M> Clone for Pool<C, M> {
    /// Another handle to the same buffers.
    fn clone(&self) -> Self {
        Pool { shared: self.shared.clone(), _memory: PhantomData }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    #[cfg(feature = "loopback")]
    use crate::memory::header::Header;
    #[cfg(feature = "loopback")]
    use crate::memory::slab::put_back;

    #[test]
    fn the_most_bytes_and_the_most_buffers() {
        let most = u32::MAX as usize / 2;
        within("number of buffers", most).unwrap();
        let error = within("number of buffers", most + 1).unwrap_err();
        let text = "ibv_reg_mr: number of buffers 2147483648 exceeds 2147483647";
        assert_eq!(error.to_string(), text);
    }

    /// The return of a buffer while another thread uses the list, during the life of its pool and
    /// after.
    #[cfg(feature = "loopback")]
    #[test]
    fn a_buffer_that_met_another_thread_comes_home() {
        let crate::loopback::Pair { pool, pd, .. } = crate::loopback::pair().unwrap();
        let (context, free) = (std::rc::Rc::new(()), pool.available());
        let own = pd.pool(8).contexts(|_| context.clone()).create(3).unwrap();
        let slots = [(); 3].map(|()| NonNull::from(Slab::take(&own.shared).unwrap()));
        // SAFETY: a header is alive while its handle is. It names its slab.
        let slab = unsafe { slots[0].cast::<Header>().as_ref() }.slab.cast_mut().cast();
        let slab = NonNull::new(slab).unwrap();
        assert_eq!(own.available(), 0);
        // SAFETY: each handle is the only one of its slot, and given up once. Those of them that
        // outlive the pool keep the slots alive.
        unsafe {
            Slab::put_later(slots[1], slab);
            Slab::put_later(slots[0], slab);
            assert_eq!(own.available(), 2);
            // The one that was returned last is taken first.
            assert_eq!(Slab::take(&own.shared).map(NonNull::from), Some(slots[0]));
            drop(own);
            assert_eq!(std::rc::Rc::strong_count(&context), 4);
            Slab::put_later(slots[2], slab);
            Slab::put_later(slots[0], slab);
        }
        assert_eq!((std::rc::Rc::strong_count(&context), pool.available()), (1, free));
    }

    /// Several threads take and return slots at the same time and interfere with each other. In the
    /// end all slots are there.
    #[cfg(feature = "loopback")]
    #[test]
    fn threads_are_in_each_others_way() {
        const TURNS: usize = if cfg!(miri) { 20 } else { 100_000 };
        /// It owns the only handle of a slot.
        struct Mine(NonNull<Header>);
        // SAFETY: so any thread may own it.
        unsafe impl Send for Mine {}
        let crate::loopback::Pair { pd, .. } = crate::loopback::pair().unwrap();
        let pool = pd.create_pool(4, 8).unwrap();
        let free = crate::memory::free_list::FreeList::new();
        let slots = [(); 4].map(|()| Mine(NonNull::from(Slab::take(&pool.shared).unwrap()).cast()));
        let (free, begin) = (&free, std::sync::Barrier::new(4));
        std::thread::scope(|scope| {
            for mine in slots {
                let begin = &begin;
                scope.spawn(move || {
                    let Mine(mut slot) = { mine };
                    begin.wait();
                    for turn in 0..TURNS {
                        // SAFETY: the only handle, given up to the list, which is open.
                        unsafe {
                            if turn % 2 == 0 || !free.put(slot) {
                                assert!(free.put_later(slot));
                            }
                        }
                        // Each thread has returned one, so there is one for it.
                        slot = loop {
                            if let Some(slot) = free.take_later(|| None) {
                                break slot;
                            }
                        };
                    }
                    // SAFETY: the only handle, taken from the list, which is open and accepts it.
                    assert!(unsafe { free.put_later(slot) });
                });
            }
        });
        assert_eq!(free.count(), 4);
        for _ in 0..4 {
            let slot = free.take_later(|| None).unwrap();
            // SAFETY: the only handle of a buffer of this pool.
            unsafe { put_back::<()>(slot.cast()) };
        }
        assert_eq!(pool.available(), 4);
    }

    /// A buffer that is returned while another is taken does not wait.
    #[cfg(feature = "loopback")]
    #[test]
    fn a_buffer_comes_home_while_another_is_taken() {
        let crate::loopback::Pair { pd, .. } = crate::loopback::pair().unwrap();
        let pool = pd.create_pool(2, 8).unwrap();
        let [one, two] = [(); 2].map(|()| NonNull::from(Slab::take(&pool.shared).unwrap()));
        let free = crate::memory::free_list::FreeList::new();
        // SAFETY: each is the only handle of its slot, and given up once.
        let taken = free.take_later(|| unsafe {
            assert!(free.put_later(one.cast()) && free.put_later(two.cast()));
            None
        });
        assert_eq!((taken, free.count()), (None, 2));
        assert_eq!(free.take(), None, "they are in the second list");
        assert_eq!(
            [(); 2].map(|()| free.take_later(|| None)),
            [Some(two.cast()), Some(one.cast())]
        );
        assert_eq!(free.take_later(|| None), None);
        // SAFETY: the only handle of each slot, since the list handed it out last.
        unsafe {
            put_back(one);
            put_back(two);
        }
        assert_eq!(pool.available(), 2);
    }
}
