//! The device list of libibverbs.

// No model: whether a device was opened is read and changed under its lock, which is held during
// the verbs that search for devices. No other lock is taken while it is held.

use std::ffi::c_int;
use std::ptr::NonNull;

use super::control::{LIBIBVERBS, created, done};
use super::handle::Context;
#[cfg(feature = "cm")]
use super::query::index_of_device;
use super::siw;
use super::types::*;
use crate::libraries::VERBS;
use crate::sync::{Mutex, MutexGuard, global, lock};

global! {
    /// Whether a device was opened. From then on memory may be registered.
    ///
    /// `ibv_fork_init` writes, without a lock, state that registrations and opened devices read. So
    /// it is called with this lock held and before any device was opened. Searching for devices may
    /// call it too, depending on the environment, so the search also holds the lock.
    static OPENED: Mutex<bool> = Mutex::new(false);
}

fn opened() -> MutexGuard<'static, bool> {
    lock(&OPENED)
}

/// Records that librdmacm opens devices by itself.
#[cfg(feature = "cm")]
pub(crate) fn note_opened() {
    *opened() = true;
}

/// `ibv_fork_init`, or EINVAL if it is too late.
pub fn fork_init() -> Result<(), c_int> {
    let opened = opened();
    // SAFETY: the lock is held, so no other thread writes the state that this reads.
    if unsafe { raw::ibv_is_fork_initialized() } != 0 {
        return Ok(());
    }
    if *opened {
        return Err(if VERBS.is_here() { libc::EINVAL } else { libc::ELIBACC });
    }
    // SAFETY: nothing was opened, and the lock is held, so no other thread reads or writes the
    // state that the verb writes.
    done(unsafe { raw::ibv_fork_init() })
}

/// The names of the RDMA devices of this machine, or the errno.
pub fn names() -> Result<Vec<String>, c_int> {
    let _opened = opened();
    let list = List::get()?;
    // SAFETY: the devices are in a list that has not been freed yet.
    Ok(list.devices().iter().map(|&device| unsafe { name(device) }).collect())
}

/// Opens the device called `wanted`; `None` if no device has that name.
pub fn open(wanted: &str) -> Result<Option<Context>, c_int> {
    // SAFETY: the devices are in a list that has not been freed yet.
    open_if(|device| unsafe { name(device) } == wanted)
}

/// Opens the first device of the list that `is_wanted` accepts.
fn open_if(is_wanted: impl Fn(*mut ibv_device) -> bool) -> Result<Option<Context>, c_int> {
    // SAFETY: the device is in a list that is not freed before the call returns.
    let open = |device| unsafe { raw::ibv_open_device(device) };
    let Some(context) = open_from(&OPENED, List::get, is_wanted, open)? else { return Ok(None) };
    // SAFETY: the context was just opened, and has no other owner.
    let context = unsafe { Context::new(context, &LIBIBVERBS, Default::default()) };
    // Query it now, while the device exists: a removed device has no provider.
    let provider = context.provider();
    // SAFETY: the context was just opened, and is not shared yet.
    unsafe { siw::mend(context.as_ptr(), provider) };
    Ok(Some(context))
}

/// Opens the first accepted device with `open`. `opened` is locked only while the list is read,
/// since a slow device would block other threads. It is set before the device is opened, so that
/// `ibv_fork_init` is not called any more.
fn open_from(
    opened: &Mutex<bool>,
    list: impl FnOnce() -> Result<List, c_int>,
    is_wanted: impl Fn(*mut ibv_device) -> bool,
    open: impl FnOnce(*mut ibv_device) -> *mut ibv_context,
) -> Result<Option<NonNull<ibv_context>>, c_int> {
    let mut opened = lock(opened);
    let list = list()?;
    let Some(&device) = list.devices().iter().find(|&&device| is_wanted(device)) else {
        return Ok(None);
    };
    *opened = true;
    drop(opened);
    created(open(device)).map(Some)
}

/// The identity of a device while a context of it is open. It is the kernel's index, which is not
/// reused, or without one, the address of libibverbs' device object. A name does not identify a
/// device: a device may be renamed or reset, and another one may take its name.
#[cfg(feature = "cm")]
#[derive(Clone, Copy, Debug)]
pub struct Identity {
    /// Negative if unknown.
    index: c_int,
    /// The address of libibverbs' object, which lives as long as a context of the device.
    device: usize,
}

#[cfg(feature = "cm")]
impl PartialEq for Identity {
    fn eq(&self, other: &Identity) -> bool {
        match (self.index >= 0, other.index >= 0) {
            (true, true) => self.index == other.index,
            _ => self.device == other.device,
        }
    }
}

#[cfg(feature = "cm")]
impl Identity {
    /// # Safety
    /// `device` is a live device of libibverbs.
    unsafe fn of(device: *mut ibv_device) -> Identity {
        // SAFETY: the device is live (this function's contract).
        Identity { index: unsafe { index_of_device(device) }, device: device.addr() }
    }

    /// # Safety
    /// `context` is live and belongs to libibverbs.
    pub(crate) unsafe fn of_context(context: *mut ibv_context) -> Identity {
        // SAFETY: the context is live (this function's contract), and the device lives as long as
        // its context.
        unsafe { Identity::of((*context).device) }
    }

    #[cfg(any(test, feature = "testing"))]
    pub fn for_tests(index: c_int, device: usize) -> Identity {
        Identity { index, device }
    }
}

/// The identity of the device behind an open context; `None` if it does not belong to libibverbs.
#[cfg(feature = "cm")]
pub fn identity_of(context: &Context) -> Option<Identity> {
    let is_real = std::ptr::eq(context.control(), &LIBIBVERBS);
    // SAFETY: its owner keeps the context open, and its table shows that it belongs to libibverbs.
    is_real.then(|| unsafe { Identity::of_context(context.live()) })
}

/// Opens a device again; `None` if it is gone.
#[cfg(feature = "cm")]
pub fn open_again(wanted: Identity) -> Result<Option<Context>, c_int> {
    // SAFETY: the devices are in a list that has not been freed yet.
    open_if(|device| unsafe { Identity::of(device) } == wanted)
}

/// `ibv_is_fork_initialized`, as an integer.
pub fn fork_status() -> u32 {
    let _opened = opened();
    // SAFETY: the verb takes no arguments. It only reads, and writers hold the lock.
    unsafe { raw::ibv_is_fork_initialized() }
}

/// The name of the device behind an open context.
pub fn name_of(context: &Context) -> String {
    // SAFETY: its owner keeps the context open, and the device lives as long as its context.
    unsafe { name((*context.live()).device) }
}

/// # Safety
/// `device` is live.
pub(crate) unsafe fn name(device: *mut ibv_device) -> String {
    // SAFETY: the device is live (this function's contract), and `name` is an array inside it.
    let name = unsafe { (*device).name };
    // A name that fills the array has no NUL.
    let bytes: Vec<u8> = name.iter().map(|&c| c as u8).take_while(|&byte| byte != 0).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// libibverbs' list of devices.
///
/// # Invariants
/// `list` is an array of `count` devices, which are live until the list is freed.
struct List {
    list: NonNull<*mut ibv_device>,
    count: usize,
    free: unsafe fn(*mut *mut ibv_device),
}

impl List {
    /// The list. The caller holds `OPENED`.
    fn get() -> Result<List, c_int> {
        let mut count: c_int = 0;
        // SAFETY: `count` is a writable local.
        let list = created(unsafe { raw::ibv_get_device_list(&mut count) })?;
        let count = usize::try_from(count).unwrap_or(0);
        // SAFETY: `free` is called once, with this list.
        Ok(List { list, count, free: |list| unsafe { raw::ibv_free_device_list(list) } })
    }

    fn devices(&self) -> &[*mut ibv_device] {
        // SAFETY: an array of `count` devices (invariant), which lives as long as the list.
        unsafe { std::slice::from_raw_parts(self.list.as_ptr(), self.count) }
    }
}

impl Drop for List {
    fn drop(&mut self) {
        // SAFETY: freed once. Opened devices hold their own references.
        unsafe { (self.free)(self.list.as_ptr()) };
    }
}

/// Whether a context's device is iWARP; `false` for a context without a device.
///
/// # Safety
/// The context is live, or null.
#[inline]
pub unsafe fn is_iwarp(context: *mut ibv_context) -> bool {
    let of = |device: *mut ibv_device| {
        // SAFETY: the device lives as long as its context, and its type does not change.
        !device.is_null()
            && unsafe { (*device).transport_type } == ibv_transport_type::IBV_TRANSPORT_IWARP
    };
    // SAFETY: the context is live (this function's contract).
    !context.is_null() && of(unsafe { (*context).device })
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    /// A device that is slow to open does not block other threads, and `ibv_fork_init` is too late
    /// from then on.
    #[test]
    fn no_lock_is_held_while_a_device_is_opened() {
        let (device, context) = (NonNull::<ibv_device>::dangling(), NonNull::dangling());
        let (mut devices, is_opened) = ([device.as_ptr()], Mutex::new(false));
        let list = || {
            assert!(is_opened.try_lock().is_err(), "the list is read with the lock held");
            Ok(List { list: NonNull::from(&mut devices).cast(), count: 1, free: |_| () })
        };
        let mut seen = None;
        let open = |device| {
            seen = Some((device, is_opened.try_lock().map(|is_opened| *is_opened).ok()));
            context.as_ptr()
        };
        assert_eq!(open_from(&is_opened, list, |_| true, open), Ok(Some(context)));
        assert_eq!(seen, Some((device.as_ptr(), Some(true))));
    }

    /// A list that was read is freed once, whether or not a device of it was opened.
    #[test]
    fn each_list_is_freed() {
        thread_local! { static FREED: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) } }
        let free = |list: *mut *mut ibv_device| FREED.with_borrow_mut(|it| it.push(list.addr()));
        for is_wanted in [true, false] {
            let mut devices = [NonNull::<ibv_device>::dangling().as_ptr(); 2];
            let list = NonNull::from(&mut devices).cast();
            let read = || Ok(List { list, count: 2, free });
            let open = |_| std::ptr::null_mut();
            let opened = open_from(&Mutex::new(false), read, |_| is_wanted, open);
            assert_eq!(opened.is_ok(), !is_wanted, "the device cannot be opened");
            assert_eq!(FREED.take(), [list.as_ptr().addr()]);
        }
    }

    /// The kernel's index decides, from 0 on. Without an index of both, libibverbs' object does.
    #[test]
    #[cfg(feature = "cm")]
    fn an_index_identifies_a_device() {
        let of = Identity::for_tests;
        assert!(of(0, 1) == of(0, 2) && of(0, 1) != of(1, 1) && of(7, 1) == of(7, 2));
        assert!(of(-1, 1) == of(0, 1) && of(0, 1) == of(-1, 1) && of(-1, 1) == of(-1, 1));
        assert!(of(-1, 1) != of(0, 2) && of(0, 1) != of(-1, 2) && of(-1, 1) != of(-1, 2));
    }

    /// Only the first call can be too late.
    #[test]
    #[cfg_attr(miri, ignore = "asks the library")]
    fn a_repeated_fork_init_always_succeeds() {
        fork_init().unwrap();
        let before = std::mem::replace(&mut *opened(), true);
        let again = fork_init();
        *opened() = before;
        assert_eq!(again, Ok(()));
    }
}
