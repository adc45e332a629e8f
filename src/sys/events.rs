//! Events without waiting, and without a pointer left in them.

use std::ffi::{c_int, c_void};
use std::ptr;

use super::control::{Created, created, errno};
use super::types::*;

/// An asynchronous event without a pointer in it: C's names an object, which must not go while the event
/// is unacknowledged, and may go at once after (R13.1).
pub(crate) struct AsyncEvent {
    /// `enum ibv_event_type`, which may have grown.
    pub event_type: u32,
    /// The QP's number, the CQ's or SRQ's context, the port; 0 if it is of the device.
    pub affiliate: u64,
}

/// `struct ibv_async_event`, whose type rdma-sys has as a Rust enum: a value that it does not know would be
/// undefined behaviour.
#[repr(C)]
pub(crate) struct RawAsyncEvent {
    pub element: Element,
    pub event_type: u32,
}

#[repr(C)]
pub(crate) union Element {
    pub object: *mut c_void,
    pub port_num: c_int,
}

/// A channel whose descriptor never blocks: an event that poll(2) saw may be gone when it is read, because another
/// thread destroyed its queue.
pub(super) unsafe fn create_comp_channel(context: *mut ibv_context) -> Created<ibv_comp_channel> {
    // SAFETY: the caller's contract.
    let channel = created(unsafe { raw::ibv_create_comp_channel(context) })?;
    // SAFETY: just created.
    let fd = unsafe { (*channel.as_ptr()).fd };
    if let Err(errno) = never_block(fd) {
        // SAFETY: nobody else knows the channel yet.
        unsafe { raw::ibv_destroy_comp_channel(channel.as_ptr()) };
        return Err(errno);
    }
    Ok(channel)
}

/// Reads an event and acknowledges it.
pub(super) unsafe fn try_get_cq_event(channel: *mut ibv_comp_channel) -> Result<u64, c_int> {
    let mut cq = ptr::null_mut();
    let mut name = ptr::null_mut();
    // SAFETY: the caller's contract; both out-pointers are locals.
    if unsafe { raw::ibv_get_cq_event(channel, &mut cq, &mut name) } != 0 {
        return Err(errno());
    }
    // SAFETY: the queue's destruction waits until the one event that was taken is acknowledged, here (R13.1).
    unsafe { raw::ibv_ack_cq_events(cq, 1) };
    Ok(name.addr() as u64)
}

/// The descriptor, which never blocks from here on: see `create_comp_channel`.
pub(super) unsafe fn async_fd(context: *mut ibv_context) -> Result<c_int, c_int> {
    // SAFETY: the context is live, by the caller's contract.
    let fd = unsafe { (*context).async_fd };
    never_block(fd).map(|()| fd)
}

pub(super) unsafe fn try_get_async_event(context: *mut ibv_context) -> Result<AsyncEvent, c_int> {
    let mut event = RawAsyncEvent { element: Element { object: ptr::null_mut() }, event_type: 0 };
    let place: *mut raw::ibv_async_event = (&raw mut event).cast();
    // SAFETY: the context is live, and `event` a local with the layout of C's (see `layout`).
    if unsafe { raw::ibv_get_async_event(context, place) } != 0 {
        return Err(errno());
    }
    let event_type = event.event_type;
    let affiliate = match Affiliation::of(event_type) {
        Affiliation::Device => 0,
        Affiliation::Port => {
            // SAFETY: this type of event names a port.
            let port = unsafe { event.element.port_num };
            port as u64
        }
        object => {
            // SAFETY: the other types name an object, which is live until the event is acknowledged.
            let at = unsafe { event.element.object };
            // SAFETY: as above, and of the type's kind.
            unsafe { object.name(at) }
        }
    };
    // SAFETY: taken above, and acknowledged once; its object is not looked at any more.
    unsafe { raw::ibv_ack_async_event(place) };
    Ok(AsyncEvent { event_type, affiliate })
}

/// What an event type speaks of.
#[derive(Clone, Copy)]
enum Affiliation {
    Qp,
    Cq,
    Srq,
    Port,
    Device,
}

impl Affiliation {
    /// What its user calls an object: the QP's number, the context of a CQ or SRQ.
    ///
    /// # Safety
    /// `object` is a live object of this kind.
    unsafe fn name(self, object: *mut c_void) -> u64 {
        let context = match self {
            // SAFETY: the caller's contract.
            Affiliation::Qp => return unsafe { (*object.cast::<ibv_qp>()).qp_num }.into(),
            // SAFETY: the caller's contract.
            Affiliation::Cq => unsafe { (*object.cast::<ibv_cq>()).cq_context },
            // SAFETY: the caller's contract.
            Affiliation::Srq => unsafe { (*object.cast::<ibv_srq>()).srq_context },
            Affiliation::Port | Affiliation::Device => return 0,
        };
        context.addr() as u64
    }

    fn of(event_type: u32) -> Affiliation {
        use raw::ibv_event_type::*;
        let is = |events: &[raw::ibv_event_type]| events.iter().any(|&e| e as u32 == event_type);
        if is(&[IBV_EVENT_CQ_ERR]) {
            Affiliation::Cq
        } else if is(&[IBV_EVENT_SRQ_ERR, IBV_EVENT_SRQ_LIMIT_REACHED]) {
            Affiliation::Srq
        } else if is(&[
            IBV_EVENT_QP_FATAL,
            IBV_EVENT_QP_REQ_ERR,
            IBV_EVENT_QP_ACCESS_ERR,
            IBV_EVENT_COMM_EST,
            IBV_EVENT_SQ_DRAINED,
            IBV_EVENT_PATH_MIG,
            IBV_EVENT_PATH_MIG_ERR,
            IBV_EVENT_QP_LAST_WQE_REACHED,
        ]) {
            Affiliation::Qp
        } else if is(&[
            IBV_EVENT_PORT_ACTIVE,
            IBV_EVENT_PORT_ERR,
            IBV_EVENT_LID_CHANGE,
            IBV_EVENT_PKEY_CHANGE,
            IBV_EVENT_SM_CHANGE,
            IBV_EVENT_CLIENT_REREGISTER,
            IBV_EVENT_GID_CHANGE,
        ]) {
            Affiliation::Port
        } else {
            Affiliation::Device
        }
    }
}

/// Sets O_NONBLOCK: a read of the descriptor that finds nothing says EAGAIN.
pub(super) fn never_block(fd: c_int) -> Result<(), c_int> {
    // SAFETY: a system call on a descriptor.
    let flags = unsafe { libc::fcntl(fd, libc::F_GETFL) };
    if flags < 0 {
        return Err(errno());
    }
    // SAFETY: a system call on a descriptor, with the flags that it has and one more.
    let code = unsafe { libc::fcntl(fd, libc::F_SETFL, flags | libc::O_NONBLOCK) };
    if code < 0 { Err(errno()) } else { Ok(()) }
}

/// Waits until a descriptor is readable, for at most so many milliseconds (for ever if negative); whether
/// it is. A signal ends the wait early.
#[cfg(not(miri))]
pub(crate) fn wait_readable(fd: c_int, milliseconds: c_int) -> Result<bool, c_int> {
    let mut poll = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    // SAFETY: one pollfd, a local.
    match unsafe { libc::poll(&mut poll, 1, milliseconds) } {
        code if code >= 0 => Ok(code > 0),
        _ => match errno() {
            libc::EINTR => Ok(false),
            errno => Err(errno),
        },
    }
}

/// Miri has no poll(2), so its sleepers look again.
#[cfg(miri)]
pub(crate) fn wait_readable(_: c_int, _: c_int) -> Result<bool, c_int> {
    std::thread::yield_now();
    Ok(true)
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixStream;
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    /// What `read` of an empty descriptor gives; if it sleeps, that is a failure and not a test that hangs.
    fn ends(read: impl FnOnce() -> c_int + std::marker::Send + 'static) -> c_int {
        let (tell, told) = mpsc::channel();
        std::thread::spawn(move || tell.send(read()));
        told.recv_timeout(Duration::from_secs(30)).expect("it sleeps for an event that is gone")
    }

    /// libibverbs reads a descriptor from which somebody took the event meanwhile.
    #[test]
    #[cfg_attr(miri, ignore = "calls libibverbs")]
    fn an_event_that_is_gone_is_not_slept_for() {
        let (empty, _other) = UnixStream::pair().unwrap();
        let fd = empty.as_raw_fd();
        never_block(fd).unwrap();
        let errno = ends(move || {
            let context = ptr::null_mut();
            let mut channel = ibv_comp_channel { context, fd, refcnt: 0 };
            // SAFETY: libibverbs looks at the descriptor, and at nothing else before it has read an event.
            unsafe { try_get_cq_event(&mut channel) }.unwrap_err()
        });
        assert_eq!(errno, libc::EAGAIN);
    }

    #[test]
    #[cfg_attr(miri, ignore = "calls libibverbs")]
    fn an_asynchronous_event_that_is_gone_is_not_slept_for() {
        let (empty, _other) = UnixStream::pair().unwrap();
        let fd = empty.as_raw_fd();
        let errno = ends(move || {
            // SAFETY: all zeroes is a value of a context: null pointers and numbers.
            let mut context = unsafe { std::mem::zeroed::<ibv_context>() };
            context.async_fd = fd;
            // SAFETY: a context, of which the descriptor is looked at.
            assert_eq!(unsafe { async_fd(&mut context) }, Ok(fd));
            // SAFETY: libibverbs looks at the descriptor, and at nothing else before it has read an event.
            unsafe { try_get_async_event(&mut context) }.err().expect("there is none")
        });
        assert_eq!(errno, libc::EAGAIN);
    }
}
