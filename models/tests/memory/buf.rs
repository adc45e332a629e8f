//! Pools and buffers, built from slots like `src/memory/pool.rs` and `buf.rs`.

use std::ptr::NonNull;

use crate::counters::queue_counters::CompletionCounter;
use crate::memory::header::{Handle, Header, word};
use crate::memory::registered::Registered;
use crate::memory::slab::{self, Headers, Slab, SlabOwner, Slot};

/// Like `Pool`.
pub struct Pool<C: 'static>(SlabOwner<C>);

impl<C> Clone for Pool<C> {
    fn clone(&self) -> Self {
        Pool(self.0.clone())
    }
}

impl<C> Pool<C> {
    pub fn new(contexts: Vec<C>) -> Self {
        let mut contexts = contexts.into_iter();
        let headers = Headers::of_pool(contexts.len()).unwrap();
        Pool(Slab::create(Registered::new(), 8, headers, |_| contexts.next().unwrap()))
    }

    pub fn take(&self) -> Option<Buf<C>> {
        Slab::take(&self.0).map(Buf::of)
    }

    pub fn available(&self) -> usize {
        self.0.free_slots()
    }
}

/// Like `Arena`.
pub struct Arena<C: 'static>(SlabOwner<C>);

impl<C> Clone for Arena<C> {
    fn clone(&self) -> Self {
        Arena(self.0.clone())
    }
}

impl Arena<()> {
    pub fn new(region: Registered, headers: usize) -> Self {
        let headers = Headers::of_arena(region.len(), headers).unwrap();
        Arena(Slab::create(region, 0, headers, |_| ()))
    }

    pub fn take(&self, len: usize) -> Option<Buf<()>> {
        Slab::take_bytes(&self.0, len).map(Buf::of)
    }

    /// The number of free bytes.
    pub fn free(&self) -> usize {
        self.0.merged().unwrap().ranges.free()
    }

    /// The number of free headers.
    pub fn spare(&self) -> usize {
        self.0.merged().unwrap().spare()
    }
}

/// Like `Buf`.
pub struct Buf<C: 'static>(NonNull<Slot<C>>);

// SAFETY: a buffer owns its context.
unsafe impl<C: Send> Send for Buf<C> {}

impl<C> Buf<C> {
    fn of(slot: &Slot<C>) -> Self {
        Buf(NonNull::from(slot))
    }

    fn slot(&self) -> &Slot<C> {
        // SAFETY: the slot lives as long as its handle.
        unsafe { self.0.as_ref() }
    }

    pub fn context(&self) -> &C {
        // SAFETY: only the holder of the handle accesses the context; loom checks this.
        unsafe { &*self.slot().context.get() }
    }

    /// The offset and the number of its bytes.
    pub fn bytes(&self) -> (usize, usize) {
        // SAFETY: the handle is ours.
        let whole = unsafe { slab::slots_of(self.0) }.whole(self.slot());
        (whole.start, whole.len as usize)
    }

    /// Like `split_off`.
    pub fn split(&self, at: usize) -> Option<Buf<C>> {
        // SAFETY: the handle is ours.
        let slots = unsafe { slab::slots_of(self.0) };
        slots.split(self.slot(), at).map(Buf::of)
    }

    /// Like `join`.
    pub fn join(self, next: Buf<C>) -> Result<Buf<C>, [Buf<C>; 2]> {
        // SAFETY: the handles are ours, and the handle of `next` is forgotten if they are joined.
        let is_joined = unsafe { slab::slots_of(self.0).join(self.slot(), next.slot()) };
        if !is_joined {
            return Err([self, next]);
        }
        std::mem::forget(next);
        Ok(self)
    }

    /// Posts it, as a word.
    pub fn give(self, counter: *const CompletionCounter) -> Posted {
        let header = self.0.cast::<Header>();
        std::mem::forget(self);
        // SAFETY: the handle is ours.
        unsafe { header.as_ref() }.give(counter);
        Posted(header)
    }

    /// Takes it out of a completion.
    pub fn take_back(posted: Posted) -> Buf<C> {
        // SAFETY: the completion returns the handle.
        unsafe { posted.0.as_ref() }.take();
        Buf(posted.0.cast())
    }
}

// SAFETY: a buffer is one pointer to a slot, which begins with a header, and owns the handle.
unsafe impl<C: 'static> Handle for Buf<C> {
    const KIND: usize = word::EXCLUSIVE;
}

impl<C> Drop for Buf<C> {
    fn drop(&mut self) {
        // SAFETY: the handle is consumed here, once.
        unsafe { slab::put_back(self.0) };
    }
}

/// A buffer that the device owns. Dropping this has no effect.
#[derive(Clone, Copy)]
pub struct Posted(pub NonNull<Header>);

// SAFETY: a word.
unsafe impl Send for Posted {}
