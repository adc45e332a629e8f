//! Lists of sends that an iterator gives.

#![allow(unsafe_code)] // emits

use std::mem::ManuallyDrop;
use std::ptr;

use super::SendQueue;
use super::bump::bump;
use super::list::SendList;
use super::list_slow::{Looked, look_through};
use crate::cold::out_of_line;
use crate::entry::Owned;
use crate::in_flight::{PostError, SendBooks};
use crate::limits::Max;
use crate::profile::Profile;
use crate::rules::{Addressed, FenceOn, IssuedBy, PostOn, SignaledOn};
use crate::transport::Transport;
use crate::wr::port::Findings;
use crate::wr::{Address, Data, Fits, WorkRequest};

impl<'d, T: Transport, P: Profile, const G: usize> SendList<'d, T, P, G>
where
    P::Entry: Owned,
{
    /// Pushes each of `wrs`, up to the first that is refused.
    ///
    /// If the iterator's `size_hint` says exactly how many there are, and they fit, then room is asked for once, and buffers are
    /// compared once, behind the last: this costs less than as many calls of [`push`](Self::push). (One that has more than
    /// that is cut there.)
    ///
    /// # Errors
    /// As for [`push`](Self::push); what was pushed before stays in the list. The error has the entry that was refused and,
    /// in order, those after it that were taken from the iterator already. To keep what was not taken, lend the iterator
    /// (`by_ref`).
    #[inline(always)]
    pub fn extend<O, D, A, F, S>(
        &mut self,
        wrs: impl IntoIterator<Item = WorkRequest<O, D, A, F, S>>,
    ) -> Result<(), PostError<P::Entry>>
    where
        O: PostOn<T> + IssuedBy<P::Initiator>,
        A: Addressed<T> + Address,
        F: FenceOn<T>,
        S: SignaledOn<P::Signaling>,
        D: Data<P::Entry> + Fits<P::MaxSendSge, P::MaxInline> + Fits<Max<G>, P::MaxInline> + 'd,
    {
        let wrs = wrs.into_iter();
        let (n, most) = wrs.size_hint();
        let left = self.most - self.count as i32;
        if most != Some(n) || n > i32::MAX as usize || n as i32 > left {
            return self.push_each(wrs);
        }
        // Whatever the iterator gives: there are `n` slots. In this order, so that nothing is taken from it beyond.
        for (_, wr) in (0..n).zip(wrs) {
            // SAFETY: as above, a slot is left.
            let (at, next) = unsafe { bump(self.at) };
            let seen = self.seen;
            let mut post = self.begin();
            post.port.has_seen(seen);
            // SAFETY: as in `push`.
            let pending = unsafe { post.put(0, wr, at.cast(), ptr::null_mut()) };
            if SendQueue::<P>::MARKED {
                post.port.give(&pending.entry);
            }
            let (seen, findings) = (post.port.seen(), post.port.findings());
            if post.port.has_faults() {
                return self.look_back(findings, pending.entry);
            }
            // Before the iterator's code may panic: the list has this one from now on.
            self.seen = seen;
            std::mem::forget(pending.entry);
            // SAFETY: the slot that was emitted.
            unsafe { self.advance(next) };
        }
        // Whether each buffer was posted here last. (The mark is read again: the loop needs its registers.)
        if self.seen != self.core.send.mark() {
            return self.look_back(Findings::LOOK, None);
        }
        self.seen = self.mark;
        Ok(())
    }

    /// Looks at each work request of the list, and keeps those before the first that is refused. The one at `at`, which
    /// has this entry, is refused, if `findings` say what for.
    #[inline(always)]
    fn look_back(
        &mut self,
        findings: Findings,
        entry: Option<P::Entry>,
    ) -> Result<(), PostError<P::Entry>> {
        let (n, first) = (self.count, self.slots.cast());
        // It goes there and back, and so no register is saved for it on the way that goes past here.
        // SAFETY: the function does not unwind, and what it gives back takes the place of this.
        let core = unsafe { ptr::read(&self.core) };
        let Looked { core, kept, cursor, result } = out_of_line(|out| {
            // SAFETY: the list's slots; `out` is writable.
            unsafe { look_through(core, first, n, G, findings, entry, out) }
        });
        // SAFETY: as above.
        unsafe { ptr::write(&mut self.core, core) };
        (self.at, self.count, self.cursor) = (self.slots.wrapping_add(kept as usize), kept, cursor);
        self.seen = self.mark;
        result
    }

    /// Pushes one after the other, out of line.
    #[inline(always)]
    fn push_each<O, D, A, F, S>(
        &mut self,
        wrs: impl Iterator<Item = WorkRequest<O, D, A, F, S>>,
    ) -> Result<(), PostError<P::Entry>>
    where
        O: PostOn<T> + IssuedBy<P::Initiator>,
        A: Addressed<T> + Address,
        F: FenceOn<T>,
        S: SignaledOn<P::Signaling>,
        D: Data<P::Entry> + Fits<P::MaxSendSge, P::MaxInline> + Fits<Max<G>, P::MaxInline> + 'd,
    {
        // The list goes there and back, as in `look_back`; if the iterator panics it is dropped there, and this one is empty.
        let (slots, cursor) = (self.slots, self.core.send.cursor());
        // SAFETY: what is left behind has no entries, and a list is put in its place.
        let list = unsafe { ptr::read(self) };
        (self.at, self.count, self.cursor, self.seen) = (slots, 0, cursor, self.mark);
        // SAFETY: `out` is writable.
        let (list, result) = out_of_line(|out| unsafe { push_each(list, wrs, out) });
        // SAFETY: as above.
        unsafe { ptr::write(self, ManuallyDrop::into_inner(list)) };
        // As they were, which the compiler is told here.
        (self.slots, self.seen) = (slots, self.mark);
        result
    }
}

/// A list, and whether all was pushed.
type Grown<'d, T, P, const G: usize> =
    (ManuallyDrop<SendList<'d, T, P, G>>, Result<(), PostError<<P as Profile>::Entry>>);

/// Pushes one after the other, and says what became of the list, whose buffers were all looked at then.
///
/// # Safety
/// `out` is writable.
#[cold]
#[inline(never)]
unsafe fn push_each<'d, T, P, O, D, A, F, S, const G: usize>(
    mut list: SendList<'d, T, P, G>,
    wrs: impl Iterator<Item = WorkRequest<O, D, A, F, S>>,
    out: *mut Grown<'d, T, P, G>,
) where
    T: Transport,
    P: Profile<Entry: Owned>,
    O: PostOn<T> + IssuedBy<P::Initiator>,
    A: Addressed<T> + Address,
    F: FenceOn<T>,
    S: SignaledOn<P::Signaling>,
    D: Data<P::Entry> + Fits<P::MaxSendSge, P::MaxInline> + Fits<Max<G>, P::MaxInline> + 'd,
{
    let mut wrs = wrs;
    let looked = if list.seen == list.mark { Ok(()) } else { list.look_back(Findings::LOOK, None) };
    let result = looked.and_then(|()| wrs.try_for_each(|wr| list.push(wr)));
    // SAFETY: the caller's contract.
    unsafe { out.write((ManuallyDrop::new(list), result)) };
}
