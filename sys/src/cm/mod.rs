//! rdma_cm: its calls, and the owners of its objects. Statements about librdmacm here also hold for
//! the loopback provider.
//!
//! The crate leaves `rdma_cm_id.qp` null: it moves its own queue pairs, with the attributes that
//! `rdma_init_qp_attr` returns. So librdmacm never touches a queue pair, neither concurrently with
//! the thread that posts (as it otherwise does inside `rdma_get_cm_event`) nor when an id is
//! destroyed.
//!
//! librdmacm writes to an id without a lock while it processes an event of it. So calls on an id
//! and reads of events are made under the lock of its [`Channel`].

// No model: it only names the guard of `cm::lock`, which has one.

mod address;
mod addrinfo;
mod calls;
mod event;
mod groups;
mod id;
mod lock;
pub(crate) mod newer;
mod seen;
#[cfg(any(test, feature = "testing"))]
pub mod stub;

use std::ffi::c_int;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr;
use std::ptr::NonNull;
use std::sync::Arc;

pub use address::{AF_IB, IbSocket, from_c, ib_from_c, ib_to_c, to_c};
pub use addrinfo::{Found, NotFound, getaddrinfo};
pub use calls::Calls;
use calls::LIBRDMACM;
pub use event::{Arm, Copied, PeerParam};
pub use groups::Failed;
pub use id::Id;
use lock::Lock;
pub use newer::{FULLMEMBER, RDMA_CM_EVENT_USER, SENDONLY_FULLMEMBER};
pub use seen::{Life, Seen};

use super::events::{look_again, never_block, wait_readable, watching};
use super::types::*;
use crate::absence;
use crate::sync::MutexGuard;

/// Prepares for the first call of librdmacm, which opens the devices. That call may never return if
/// the device file of rdma_cm has the device number of something else.
fn enter() -> Result<(), c_int> {
    if absence::cm_is_stale() {
        return Err(libc::ENODEV);
    }
    super::device::note_opened();
    Ok(())
}

/// An event channel. Its descriptor does not block.
pub struct Channel {
    // Invariants: `ptr` is a live channel of the provider behind `calls`. It is destroyed once,
    // when nothing refers to it: each id holds an `Arc` of its channel.
    ptr: NonNull<raw::rdma_event_channel>,
    calls: &'static Calls,
    lock: Lock,
    /// The descriptor that programs sleep on. It watches the channel's descriptor
    /// ([`watched`](Self::watched)).
    watch: Option<OwnedFd>,
}

// SAFETY: librdmacm's channel is a descriptor, and every call that uses it is made under the lock.
unsafe impl Send for Channel {}
// SAFETY: every call that uses the channel is made under the lock.
unsafe impl Sync for Channel {}

impl Channel {
    /// Opens a channel of librdmacm.
    pub fn open() -> Result<Self, c_int> {
        enter()?;
        // SAFETY: librdmacm creates a channel without another one, and it has no other owner.
        unsafe {
            calls::create_event_channel(ptr::null_mut()).map(|ptr| Channel::of(ptr, &LIBRDMACM))
        }
    }

    /// Opens another channel of the same provider.
    pub fn another(&self) -> Result<Self, c_int> {
        let create = self.calls.create_event_channel;
        // SAFETY: this channel is live. The new one has no other owner.
        unsafe { create(self.as_ptr()).map(|ptr| Channel::of(ptr, self.calls)) }
    }

    /// # Safety
    /// `ptr` is a live channel of the provider behind `calls`, and nothing else destroys it. The
    /// functions of `calls` keep the contracts of their C namesakes ([`Calls`]).
    pub unsafe fn of(ptr: NonNull<raw::rdma_event_channel>, calls: &'static Calls) -> Self {
        Channel { ptr, calls, lock: Lock::new(), watch: None }
    }

    /// Prepares the channel for ids that migrate to it.
    ///
    /// A migrating id brings its pending events along, but Linux wakes no thread for them (its
    /// `ucma_migrate_id` only moves them). So threads sleep on a second descriptor that watches the
    /// channel's descriptor. When an id arrives, that descriptor checks again.
    ///
    /// epoll(7) wakes a sleeper only for a descriptor that it does not already consider readable. A
    /// thread that takes an event polls the watching descriptor first, which resets that before the
    /// thread sleeps.
    pub fn watched(mut self) -> Result<Self, c_int> {
        // Miri's sleepers poll.
        if !cfg!(miri) {
            let watch = watching(self.own_fd())?;
            never_block(watch.as_raw_fd())?;
            self.watch = Some(watch);
        }
        Ok(self)
    }

    /// Wakes sleepers after an id arrived, perhaps with events.
    fn wake(&self) {
        if let Some(watch) = &self.watch {
            // This cannot fail, since `watch` already watches the descriptor.
            let _ = look_again(watch, self.own_fd());
        }
    }

    /// The descriptor to sleep on.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.watch.as_ref().map_or_else(|| self.own_fd(), AsFd::as_fd)
    }

    fn own_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the channel is live, and its descriptor never changes. It stays open as long as
        // the channel exists.
        unsafe { BorrowedFd::borrow_raw((*self.ptr.as_ptr()).fd) }
    }

    fn as_ptr(&self) -> *mut raw::rdma_event_channel {
        self.ptr.as_ptr()
    }

    fn lock(&self) -> MutexGuard<'_, ()> {
        self.lock.lock()
    }

    /// Takes the next event, copies it and acknowledges it; `None` if there is none. Does not
    /// block.
    pub fn take_event(self: &Arc<Self>) -> Result<Option<Copied>, c_int> {
        let guard = self.lock();
        // librdmacm reads an event with the lock held. If a program made the descriptor blocking,
        // that would block all ids, so check first.
        if wait_readable([self.fd()], 0)? == 0 {
            return Ok(None);
        }
        // SAFETY: the channel is live and belongs to this provider, and its lock is held.
        let event = match unsafe { (self.calls.get_cm_event)(self.as_ptr()) } {
            Ok(event) => event.as_ptr(),
            Err(libc::EAGAIN) => return Ok(None),
            Err(errno) => return Err(errno),
        };
        // SAFETY: the event was just taken from this channel, whose lock is held. It is
        // acknowledged once, after the copy, which keeps no pointer into it.
        let copied = unsafe {
            let copied = event::copy(event, self);
            (self.calls.ack_cm_event)(event);
            copied
        };
        drop(guard);
        Ok(Some(copied))
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        // SAFETY: the channel is live, and nothing refers to it any more.
        unsafe { (self.calls.destroy_event_channel)(self.ptr.as_ptr()) };
    }
}

/// Converts a call's result, 0 or an errno.
fn status(code: c_int) -> Result<(), c_int> {
    if code == 0 { Ok(()) } else { Err(code) }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::mpsc;
    use std::time::{Duration, Instant};
    use std::{fs, thread};

    use super::*;

    /// As on Linux: the events of a migrated id are pending, and no thread was woken.
    ///
    /// An id that migrates with queued events wakes threads that sleep on the channel.
    #[test]
    #[cfg_attr(miri, ignore = "epoll(7)")]
    fn a_migrated_id_wakes_sleepers() {
        let channel = Arc::new(stub::silent_channel().watched().unwrap());
        assert!(matches!(channel.take_event(), Ok(None)));
        let (says, who) = mpsc::channel();
        let sleeper = thread::spawn({
            let channel = Arc::clone(&channel);
            move || {
                says.send(fs::read_link("/proc/thread-self").unwrap()).unwrap();
                wait_readable([channel.fd()], 5000)
            }
        });
        let stat = Path::new("/proc").join(who.recv().unwrap()).join("stat");
        while !fs::read_to_string(&stat).unwrap().contains(") S ") {
            thread::yield_now();
        }
        stub::be_readable_in_silence(&channel);
        assert_eq!(wait_readable([channel.fd()], 0), Ok(0), "no thread is woken");
        let mut id = stub::noting(7);
        id.migrate(Arc::clone(&channel)).unwrap();
        assert_eq!(sleeper.join().unwrap(), Ok(1));
        drop(id);
    }

    /// Whichever way an id moves, the lock at the lower address is taken first.
    #[test]
    fn two_locks_are_always_taken_in_the_same_order() {
        let locks = [Lock::new(), Lock::new()];
        for way in [0, 1] {
            thread::scope(|scope| {
                let held = locks[1].lock();
                let both = scope.spawn(|| drop(locks[way].with(&locks[1 - way])));
                let began = Instant::now();
                while locks[0].is_free() && began.elapsed() < Duration::from_secs(20) {
                    thread::yield_now();
                }
                let is_first = !locks[0].is_free();
                drop(held);
                both.join().unwrap();
                assert!(is_first, "{way}");
            });
        }
    }
}
