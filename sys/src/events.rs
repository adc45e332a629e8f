//! Events, read without blocking and copied without their pointers.

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr;
use std::ptr::NonNull;

use super::control::{Control, Created, created, errno, status};
use super::types::*;

/// An asynchronous event without its pointer. C's event names an object, which must stay while the
/// event is unacknowledged and may be destroyed right after (R13.1).
pub struct AsyncEvent {
    /// `enum ibv_event_type`, which may have new values.
    pub event_type: u32,
    /// The QP's number, the CQ's or SRQ's context, or the port; 0 for an event of the device.
    pub affiliate: u64,
}

/// `struct ibv_async_event`. rdma-sys declares its type as a Rust enum, for which an unknown value
/// would be undefined behaviour.
#[repr(C)]
pub struct RawAsyncEvent {
    pub element: Element,
    pub event_type: u32,
}

#[repr(C)]
pub union Element {
    pub object: *mut c_void,
    pub port_num: c_int,
}

/// Creates a channel whose descriptor never blocks: an event that poll(2) reported may be gone when
/// it is read, because another thread destroyed its queue.
pub(crate) unsafe fn create_comp_channel(context: *mut ibv_context) -> Created<ibv_comp_channel> {
    // SAFETY: `context` is live (the verb's contract, see `Control`).
    let channel = created(unsafe { raw::ibv_create_comp_channel(context) })?;
    // SAFETY: the channel was just created.
    let fd = unsafe { (*channel.as_ptr()).fd };
    // SAFETY: the channel was just created, and is not shared yet.
    that_never_blocks(channel, fd, |channel| unsafe { _ = raw::ibv_destroy_comp_channel(channel) })
}

/// Makes the descriptor of a new object nonblocking. If that fails, destroys the object.
pub(crate) fn that_never_blocks<T>(
    made: NonNull<T>,
    fd: c_int,
    destroy: impl FnOnce(*mut T),
) -> Created<T> {
    if let Err(errno) = never_block(fd) {
        destroy(made.as_ptr());
        return Err(errno);
    }
    Ok(made)
}

/// Takes an event and acknowledges it. Returns the `cq_context` of its queue, or the errno,
/// `EAGAIN` if there is none. Blocks only if the descriptor does. (Inlining it makes a wake as
/// short as in C: 20 instructions fewer. Keeping both pointers in one local saves a register in the
/// loop over the completions, 3 instructions each.)
///
/// # Safety
/// `channel` is live and belongs to this table's provider.
#[inline(always)]
pub unsafe fn try_get_cq_event(
    control: &Control,
    channel: *mut ibv_comp_channel,
) -> Result<u64, c_int> {
    // Generic, so that it is compiled in the crate that calls it.
    #[cold]
    #[inline(never)]
    #[allow(clippy::extra_unused_type_parameters)]
    fn none<T>(code: c_int) -> c_int {
        status(code)
    }
    let mut event = MaybeUninit::<(*mut ibv_cq, *mut c_void)>::uninit();
    let at = event.as_mut_ptr();
    // SAFETY: the channel is live (this function's contract). Both out-pointers are locals.
    let code = unsafe { (control.get_cq_event)(channel, &raw mut (*at).0, &raw mut (*at).1) };
    if code != 0 {
        return Err(none::<()>(code));
    }
    // SAFETY: an event was taken, so both were written. Destroying its queue waits until it is
    // acknowledged, which happens here, once (R13.1).
    let name = unsafe {
        (control.ack_cq_events)((*at).0, 1);
        (*at).1
    };
    Ok(name.addr() as u64)
}

/// The descriptor, which is nonblocking from here on (see `create_comp_channel`).
pub(crate) unsafe fn async_fd(context: *mut ibv_context) -> Result<c_int, c_int> {
    // SAFETY: `context` is live (the verb's contract).
    let fd = unsafe { (*context).async_fd };
    never_block(fd).map(|()| fd)
}

pub(crate) unsafe fn try_get_async_event(context: *mut ibv_context) -> Result<AsyncEvent, c_int> {
    let mut event = RawAsyncEvent { element: Element { object: ptr::null_mut() }, event_type: 0 };
    let place: *mut raw::ibv_async_event = (&raw mut event).cast();
    // SAFETY: `context` is live (the verb's contract), and `event` is a local with C's layout (see
    // `layout`).
    if unsafe { raw::ibv_get_async_event(context, place) } != 0 {
        return Err(errno());
    }
    // SAFETY: the event was taken, so its object is live until it is acknowledged.
    let copied = unsafe { copy(&event) };
    // SAFETY: the event was taken above and is acknowledged once. Its object is not used any more.
    unsafe { raw::ibv_ack_async_event(place) };
    Ok(copied)
}

/// # Safety
/// The object that the event names, if any, is live and of the kind that its type says.
unsafe fn copy(event: &RawAsyncEvent) -> AsyncEvent {
    let event_type = event.event_type;
    let affiliate = match Affiliation::of(event_type) {
        Affiliation::Device => 0,
        Affiliation::Port => {
            // SAFETY: this type of event names a port.
            let port = unsafe { event.element.port_num };
            port as u64
        }
        object => {
            // SAFETY: the other types name an object of their kind, which is live (this function's
            // contract).
            unsafe { object.name(event.element.object) }
        }
    };
    AsyncEvent { event_type, affiliate }
}

/// The kind of object that an event type is about.
#[derive(Clone, Copy)]
pub enum Affiliation {
    Qp,
    Cq,
    Srq,
    Port,
    Device,
}

impl Affiliation {
    /// The name of an object for its user: a QP's number, or the context of a CQ or SRQ.
    ///
    /// # Safety
    /// `object` is a live object of this kind.
    unsafe fn name(self, object: *mut c_void) -> u64 {
        // SAFETY: the object is live and of this kind (this function's contract).
        let context = unsafe {
            match self {
                Affiliation::Qp => return (*object.cast::<ibv_qp>()).qp_num.into(),
                Affiliation::Cq => (*object.cast::<ibv_cq>()).cq_context,
                Affiliation::Srq => (*object.cast::<ibv_srq>()).srq_context,
                Affiliation::Port | Affiliation::Device => return 0,
            }
        };
        context.addr() as u64
    }

    pub fn of(event_type: u32) -> Affiliation {
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

/// Sets O_NONBLOCK: reading the descriptor when it is empty returns EAGAIN.
pub(crate) fn never_block(fd: c_int) -> Result<(), c_int> {
    set_nonblock(fd, true)
}

/// Sets whether reading the descriptor blocks while it is empty.
pub fn set_blocking(fd: BorrowedFd<'_>, blocks: bool) -> Result<(), c_int> {
    set_nonblock(fd.as_raw_fd(), !blocks)
}

fn set_nonblock(fd: c_int, nonblock: bool) -> Result<(), c_int> {
    // SAFETY: a system call on a descriptor, without pointers.
    let flags = unsafe { libc::fcntl(fd, libc::F_GETFL) };
    if flags < 0 {
        return Err(errno());
    }
    let flags = if nonblock { flags | libc::O_NONBLOCK } else { flags & !libc::O_NONBLOCK };
    // SAFETY: a system call on a descriptor, without pointers.
    let code = unsafe { libc::fcntl(fd, libc::F_SETFL, flags) };
    if code < 0 { Err(errno()) } else { Ok(()) }
}

/// A nonblocking descriptor that is readable once it was written to (eventfd(2)).
pub fn eventfd() -> Result<OwnedFd, c_int> {
    // SAFETY: a system call without pointers.
    let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
    if fd < 0 {
        return Err(errno());
    }
    // SAFETY: the descriptor was just opened, and has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// A descriptor that is readable while `fd` is, and gives no other access to it (epoll(7)).
///
/// Like the functions below, it takes a borrowed descriptor instead of a number, because a number
/// may name a descriptor of other code:
///
/// ```compile_fail,E0308
/// # use proverbs_sys::events::watching;
/// let watch = watching(3);
/// ```
pub fn watching(fd: BorrowedFd<'_>) -> Result<OwnedFd, c_int> {
    // SAFETY: a system call without pointers.
    let epoll = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
    if epoll < 0 {
        return Err(errno());
    }
    // SAFETY: the descriptor was just opened, and has no other owner.
    let epoll = unsafe { OwnedFd::from_raw_fd(epoll) };
    control(&epoll, libc::EPOLL_CTL_ADD, fd).map(|()| epoll)
}

/// Makes a [`watching`] descriptor check `fd` again, and wake its sleepers if it is readable.
#[cfg(feature = "cm")]
pub fn look_again(epoll: &OwnedFd, fd: BorrowedFd<'_>) -> Result<(), c_int> {
    control(epoll, libc::EPOLL_CTL_MOD, fd)
}

fn control(epoll: &OwnedFd, operation: c_int, fd: BorrowedFd<'_>) -> Result<(), c_int> {
    let mut events = libc::epoll_event { events: libc::EPOLLIN as u32, u64: 0 };
    // SAFETY: the event is a local, which the call copies.
    let code =
        unsafe { libc::epoll_ctl(epoll.as_raw_fd(), operation, fd.as_raw_fd(), &mut events) };
    if code < 0 { Err(errno()) } else { Ok(()) }
}

/// Waits until one of these descriptors is readable, for at most this many milliseconds (forever if
/// negative). Returns a bit for each readable one; 0 after the timeout or a signal. There are at
/// most 32. `None` is allowed behind the last one.
#[cfg(not(miri))]
#[inline]
pub fn wait_readable<'fd, const N: usize>(
    fds: [impl Into<Option<BorrowedFd<'fd>>>; N],
    milliseconds: c_int,
) -> Result<u32, c_int> {
    const { assert!(N <= 32) };
    let fds = fds.map(|fd| fd.into().map_or(-1, |fd| fd.as_raw_fd()));
    let count = fds.iter().filter(|fd| **fd >= 0).count() as libc::nfds_t;
    let mut polls = fds.map(|fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 });
    // SAFETY: `N` pollfds, which are a local, and `count` is at most `N`.
    let code = unsafe { libc::poll(polls.as_mut_ptr(), count, milliseconds) };
    match code {
        ..0 => poll_failed::<N>(),
        // With one descriptor, the call returns the number of readable ones.
        _ if N == 1 => Ok(code as u32),
        _ => Ok((0..N).map(|i| u32::from(polls[i].revents != 0) << i).sum()),
    }
}

#[cfg(not(miri))]
#[cold]
fn poll_failed<const N: usize>() -> Result<u32, c_int> {
    match errno() {
        libc::EINTR => Ok(0),
        errno => Err(errno),
    }
}

/// Miri has no poll(2), so its sleepers check every descriptor in a loop.
#[cfg(miri)]
pub fn wait_readable<T, const N: usize>(_: [T; N], _: c_int) -> Result<u32, c_int> {
    std::thread::yield_now();
    Ok(u32::MAX >> (32 - N))
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;
    use crate::control::LIBIBVERBS;

    /// The result of `read` on an empty descriptor. A `read` that sleeps fails the test instead of
    /// hanging it.
    fn ends(read: impl FnOnce() -> c_int + std::marker::Send + 'static) -> c_int {
        let (tell, told) = mpsc::channel();
        std::thread::spawn(move || tell.send(read()));
        told.recv_timeout(Duration::from_secs(30)).expect(
            "the read sleeps for an event that is \
            gone",
        )
    }

    /// Descriptors of this crate are not inherited by child programs, and reading them does not
    /// block.
    #[test]
    #[cfg_attr(miri, ignore = "eventfd(2)")]
    fn descriptors_are_not_inherited() {
        // SAFETY: a system call on a descriptor, without pointers.
        let flags = |fd: &OwnedFd, what| unsafe { libc::fcntl(fd.as_raw_fd(), what) };
        let event = eventfd().unwrap();
        assert_ne!(flags(&event, libc::F_GETFL) & libc::O_NONBLOCK, 0);
        let watching = watching(event.as_fd()).unwrap();
        for fd in [&event, &watching] {
            assert_eq!(flags(fd, libc::F_GETFD), libc::FD_CLOEXEC);
        }
        let (blocks, _other) = UnixStream::pair().unwrap();
        never_block(blocks.as_raw_fd()).unwrap();
        assert_ne!(flags(&blocks.into(), libc::F_GETFL) & libc::O_NONBLOCK, 0);
        assert_eq!(never_block(-1), Err(libc::EBADF));
    }

    /// A watching descriptor is readable while its target is, and cannot be read itself.
    #[test]
    #[cfg_attr(miri, ignore = "poll(2)")]
    fn readiness_is_visible_through_a_watch() {
        use std::io::{Read, Write};
        let file = std::fs::File::open("/").unwrap();
        assert_eq!(watching(file.as_fd()).err(), Some(libc::EPERM), "epoll(7) cannot watch files");
        let (mut watched, mut peer) = UnixStream::pair().unwrap();
        let watching = watching(watched.as_fd()).unwrap();
        let fd = watching.as_fd();
        assert_eq!(wait_readable([fd], 0), Ok(0));
        peer.write_all(b"x").unwrap();
        assert_eq!(wait_readable([fd], 1000), Ok(1));
        let mut file = std::fs::File::from(watching.try_clone().unwrap());
        assert!(file.read(&mut [0; 8]).is_err());
        watched.read_exact(&mut [0]).unwrap();
        assert_eq!(wait_readable([fd], 0), Ok(0));
        drop(watched);
        assert_eq!(wait_readable([fd], 0), Ok(0), "a closed descriptor is not watched");
    }

    /// Each event taken is acknowledged once, since destroying its queue waits for that. Without an
    /// event there is nothing to acknowledge.
    #[test]
    fn a_taken_event_is_acknowledged() {
        use crate::tests::{ANSWER, answered, saw, seen};
        unsafe extern "C" fn get(
            _: *mut ibv_comp_channel,
            cq: *mut *mut ibv_cq,
            context: *mut *mut c_void,
        ) -> c_int {
            // SAFETY: both are writable (the verb's contract).
            unsafe { (*cq, *context) = (ptr::null_mut(), ptr::without_provenance_mut(9)) };
            answered("taken")
        }
        unsafe extern "C" fn ack(_: *mut ibv_cq, count: u32) {
            saw(format!("{count} acknowledged"));
        }
        static NOTING: Control = Control { get_cq_event: get, ack_cq_events: ack, ..LIBIBVERBS };
        // SAFETY: the stub does not use the channel.
        let take = || unsafe { try_get_cq_event(&NOTING, ptr::null_mut()) };
        assert_eq!(take(), Ok(9));
        assert_eq!(seen(), ["taken", "1 acknowledged"]);
        ANSWER.set(-1);
        assert_eq!(take(), Err(libc::EPERM));
        assert_eq!(seen(), ["taken"]);
    }

    /// An object that cannot be made nonblocking is not leaked.
    #[test]
    #[cfg_attr(miri, ignore = "fcntl(2)")]
    fn an_object_that_may_block_is_destroyed() {
        let (mut made, mut destroyed) = (7, 0);
        let (reader, _writer) = std::io::pipe().unwrap();
        let fds = [reader.as_raw_fd(), -1];
        let all = fds.map(|fd| {
            let made = NonNull::from(&mut made);
            that_never_blocks(made, fd, |_| destroyed += 1).map(|_| ())
        });
        assert_eq!((all, destroyed), ([Ok(()), Err(libc::EBADF)], 1));
    }

    /// A descriptor that was opened only for reading has no flags.
    #[test]
    #[cfg_attr(miri, ignore = "fcntl(2)")]
    fn any_descriptor_can_be_made_nonblocking() {
        use std::io::Read;
        let (mut reader, _writer) = std::io::pipe().unwrap();
        never_block(reader.as_raw_fd()).unwrap();
        let error = reader.read(&mut [0]).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock);
        assert_eq!(never_block(-1), Err(libc::EBADF));
        // This one has flags, and nothing to read.
        use std::os::unix::fs::OpenOptionsExt;
        let path = std::fs::OpenOptions::new().read(true).custom_flags(libc::O_PATH).open("/");
        assert_eq!(never_block(path.unwrap().as_raw_fd()), Err(libc::EBADF));
    }

    const CLOSED: &str = "PROVERBS_CLOSED_INPUT";

    /// The child process of the test below. A process may have closed its input, whose number is as
    /// valid as any other, and it may have no number left.
    #[test]
    #[ignore = "started by a_descriptor_that_cannot_be_created_is_an_errno"]
    fn descriptors_of_a_process_without_input() {
        if std::env::var_os(CLOSED).is_none() {
            return;
        }
        let watched = eventfd().unwrap();
        // SAFETY: this process does not use its input.
        unsafe { libc::close(0) };
        assert_eq!(eventfd().unwrap().as_raw_fd(), 0);
        assert_eq!(watching(watched.as_fd()).unwrap().as_raw_fd(), 0);
        let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: the limit is a local.
        assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &none) }, 0);
        assert_eq!(eventfd().err(), Some(libc::EMFILE));
        assert_eq!(watching(watched.as_fd()).err(), Some(libc::EMFILE));
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri starts no processes")]
    fn a_descriptor_that_cannot_be_created_is_an_errno() {
        let name = "events::tests::descriptors_of_a_process_without_input";
        let child = std::process::Command::new(std::env::current_exe().unwrap())
            .args([name, "--exact", "--ignored", "--test-threads=1"])
            .env(CLOSED, "1")
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&child.stdout);
        assert!(child.status.success() && said.contains("1 passed"), "{said}");
    }

    /// An object is identified by the value that its user gave it, or by its number.
    #[test]
    fn an_event_identifies_its_object() {
        let context = ptr::without_provenance_mut(9);
        let mut qp = ibv_qp { qp_num: 17, qp_context: context, ..zeroed() };
        let mut cq = ibv_cq { cq_context: context, ..zeroed() };
        let mut srq = ibv_srq { srq_context: context, ..zeroed() };
        let copied = |event: raw::ibv_event_type, element| {
            // SAFETY: the object is the queue pair above, and no other kind is named.
            let copied = unsafe { copy(&RawAsyncEvent { element, event_type: event as u32 }) };
            assert_eq!(copied.event_type, event as u32);
            copied.affiliate
        };
        use raw::ibv_event_type::*;
        assert_eq!(copied(IBV_EVENT_PORT_ERR, Element { port_num: 2 }), 2);
        assert_eq!(copied(IBV_EVENT_DEVICE_FATAL, Element { port_num: 2 }), 0, "it names nothing");
        let object = (&raw mut qp).cast();
        assert_eq!(copied(IBV_EVENT_QP_FATAL, Element { object }), 17);
        // SAFETY: a queue pair.
        assert_eq!(unsafe { Affiliation::Qp.name((&raw mut qp).cast()) }, 17);
        // SAFETY: a completion queue.
        assert_eq!(unsafe { Affiliation::Cq.name((&raw mut cq).cast()) }, 9);
        // SAFETY: a shared receive queue.
        assert_eq!(unsafe { Affiliation::Srq.name((&raw mut srq).cast()) }, 9);
    }

    /// Events of unknown types are about the device.
    #[test]
    fn each_event_has_its_kind_of_object() {
        use raw::ibv_event_type::*;
        let kind = |event: raw::ibv_event_type| match Affiliation::of(event as u32) {
            Affiliation::Qp => "qp",
            Affiliation::Cq => "cq",
            Affiliation::Srq => "srq",
            Affiliation::Port => "port",
            Affiliation::Device => "device",
        };
        assert_eq!([IBV_EVENT_CQ_ERR, IBV_EVENT_QP_FATAL].map(kind), ["cq", "qp"]);
        assert_eq!([IBV_EVENT_SRQ_ERR, IBV_EVENT_SRQ_LIMIT_REACHED].map(kind), ["srq"; 2]);
        assert_eq!([IBV_EVENT_PORT_ERR, IBV_EVENT_GID_CHANGE].map(kind), ["port"; 2]);
        assert_eq!([IBV_EVENT_DEVICE_FATAL, IBV_EVENT_WQ_FATAL].map(kind), ["device"; 2]);
        assert!(matches!(Affiliation::of(1000), Affiliation::Device));
    }

    /// Another thread took the event before libibverbs reads the descriptor.
    ///
    /// Checking for an event does not sleep if another thread took the event.
    #[test]
    #[cfg_attr(miri, ignore = "calls libibverbs")]
    fn a_read_does_not_sleep_for_a_taken_event() {
        let (empty, _other) = UnixStream::pair().unwrap();
        let fd = empty.as_raw_fd();
        never_block(fd).unwrap();
        let errno = ends(move || {
            let mut channel = ibv_comp_channel { fd, ..zeroed() };
            // SAFETY: libibverbs uses only the descriptor before it has read an event.
            unsafe { try_get_cq_event(&LIBIBVERBS, &mut channel) }.unwrap_err()
        });
        assert_eq!(errno, libc::EAGAIN);
    }

    /// Checking for an event does not sleep if another thread took the event.
    #[test]
    #[cfg_attr(miri, ignore = "calls libibverbs")]
    fn a_read_does_not_sleep_for_a_taken_asynchronous_event() {
        let (empty, _other) = UnixStream::pair().unwrap();
        let fd = empty.as_raw_fd();
        let errno = ends(move || {
            let mut context = ibv_context { async_fd: fd, ..zeroed() };
            // SAFETY: only the descriptor of the context is used.
            assert_eq!(unsafe { async_fd(&mut context) }, Ok(fd));
            // SAFETY: libibverbs uses only the descriptor before it has read an event.
            unsafe { try_get_async_event(&mut context) }.err().expect("there is none")
        });
        assert_eq!(errno, libc::EAGAIN);
    }
}
