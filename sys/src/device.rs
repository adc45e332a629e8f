//! The device list, which only libibverbs has.

// No model: whether a device was opened is read and changed under its lock, which is held during
// the verbs that look for devices. Nothing else is locked meanwhile.

use std::ffi::c_int;
use std::ptr::NonNull;

use super::control::{LIBIBVERBS, created, done};
use super::handle::Context;
#[cfg(feature = "cm")]
use super::query::index_of_device;
use super::siw;
use super::types::*;
use crate::sync::{Mutex, MutexGuard, lock};

/// Whether a device was opened: from then on memory may be registered.
///
/// `ibv_fork_init` writes, without a lock, what registrations and opened devices read. So it is
/// called with this lock held and before anything was opened; and what looks for devices, which may
/// call it too, as the environment says, holds the lock meanwhile.
static OPENED: Mutex<bool> = Mutex::new(false);

fn opened() -> MutexGuard<'static, bool> {
    lock(&OPENED)
}

/// librdmacm opens devices by itself.
#[cfg(feature = "cm")]
pub(crate) fn note_opened() {
    *opened() = true;
}

/// `ibv_fork_init`, or EINVAL if it is too late.
pub fn fork_init() -> Result<(), c_int> {
    let opened = opened();
    // SAFETY: the lock is held, so no other thread calls what writes the state that this reads.
    if unsafe { raw::ibv_is_fork_initialized() } != 0 {
        return Ok(());
    }
    if *opened {
        return Err(libc::EINVAL);
    }
    // SAFETY: nothing was opened, and the lock is held, so no other thread reads or writes what the
    // verb writes.
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

/// Opens the first device of the list that is wanted.
fn open_if(is_wanted: impl Fn(*mut ibv_device) -> bool) -> Result<Option<Context>, c_int> {
    // SAFETY: the device is in a list that is not freed before the call returns.
    let open = |device| unsafe { raw::ibv_open_device(device) };
    let Some(context) = open_from(&OPENED, List::get, is_wanted, open)? else {
        return Ok(None);
    };
    // SAFETY: the context was just opened, and has no other owner.
    let context = unsafe { Context::new(context, &LIBIBVERBS, Default::default()) };
    // Now, while the device is there: one that is removed has no provider.
    let provider = context.provider();
    // SAFETY: the context was just opened, and nothing else has it yet.
    unsafe { siw::mend(context.as_ptr(), provider) };
    Ok(Some(context))
}

/// Opens the first device that is wanted by `open`. `opened` is locked only for the list, since a
/// device that stalls would keep others waiting. It is set before that, so `ibv_fork_init` is not
/// called any more.
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

/// What tells a device from all others while a context of it is open: the kernel's index, which it
/// does not give again, or where kernel or library have none, libibverbs' object of the device. A
/// name is no identity: a device may be renamed or reset, and another one take its name.
#[cfg(feature = "cm")]
#[derive(Clone, Copy, Debug)]
pub struct Identity {
    /// Negative if it is not known.
    index: c_int,
    /// The address of libibverbs' object, which lives as long as a context of it.
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
    /// `context` is live and of libibverbs.
    pub(crate) unsafe fn of_context(context: *mut ibv_context) -> Identity {
        // SAFETY: the context is live (this function's contract), and its device as long as it is.
        unsafe { Identity::of((*context).device) }
    }

    #[cfg(any(test, feature = "testing"))]
    pub fn for_tests(index: c_int, device: usize) -> Identity {
        Identity { index, device }
    }
}

/// The identity of the device behind an open context; `None` if it is not one of libibverbs.
#[cfg(feature = "cm")]
pub fn identity_of(context: &Context) -> Option<Identity> {
    let is_real = std::ptr::eq(context.control(), &LIBIBVERBS);
    // SAFETY: its owner keeps the context open, and its table says that it is of libibverbs.
    is_real.then(|| unsafe { Identity::of_context(context.live()) })
}

/// Opens a device once more; `None` if it is not there any more.
#[cfg(feature = "cm")]
pub fn open_again(wanted: Identity) -> Result<Option<Context>, c_int> {
    // SAFETY: the devices are in a list that has not been freed yet.
    open_if(|device| unsafe { Identity::of(device) } == wanted)
}

/// `ibv_is_fork_initialized`, as an integer.
pub fn fork_status() -> u32 {
    let _opened = opened();
    // SAFETY: the verb takes no arguments. It only reads, and what writes holds the lock.
    unsafe { raw::ibv_is_fork_initialized() }
}

/// The name of the device behind an open context.
pub fn name_of(context: &Context) -> String {
    // SAFETY: its owner keeps the context open, and a device is live as long as a context of it.
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
    /// The list, for who holds `OPENED`.
    fn get() -> Result<List, c_int> {
        let mut count: c_int = 0;
        // SAFETY: `count` is a writable local.
        let list = created(unsafe { raw::ibv_get_device_list(&mut count) })?;
        let count = usize::try_from(count).unwrap_or(0);
        // SAFETY: it is called with such a list, once.
        Ok(List { list, count, free: |list| unsafe { raw::ibv_free_device_list(list) } })
    }

    fn devices(&self) -> &[*mut ibv_device] {
        // SAFETY: an array of `count` devices (invariant), which lives as long as the list.
        unsafe { std::slice::from_raw_parts(self.list.as_ptr(), self.count) }
    }
}

impl Drop for List {
    fn drop(&mut self) {
        // SAFETY: freed once. Opened devices hold references of their own.
        unsafe { (self.free)(self.list.as_ptr()) };
    }
}

/// Whether a context's device speaks iWARP. `false` of a context that names no device.
///
/// # Safety
/// The context is live, or null.
#[inline]
pub unsafe fn is_iwarp(context: *mut ibv_context) -> bool {
    let of = |device: *mut ibv_device| {
        // SAFETY: a device is live as long as a context of it, and its type does not change.
        !device.is_null()
            && unsafe { (*device).transport_type } == ibv_transport_type::IBV_TRANSPORT_IWARP
    };
    // SAFETY: the context is live (this function's contract).
    !context.is_null() && of(unsafe { (*context).device })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A device that stalls while it is opened does not keep others waiting, and it is too late for
    /// `ibv_fork_init` from then on.
    #[test]
    fn the_lock_is_free_while_a_device_is_opened() {
        let (device, context) = (NonNull::<ibv_device>::dangling(), NonNull::dangling());
        let (mut devices, is_opened) = ([device.as_ptr()], Mutex::new(false));
        let list = || {
            assert!(is_opened.try_lock().is_err(), "the list is looked at with the lock");
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

    /// It is too late for the first time only.
    #[test]
    #[cfg_attr(miri, ignore = "asks the library")]
    fn what_was_done_in_time_is_done_again_at_any_time() {
        fork_init().unwrap();
        let before = std::mem::replace(&mut *opened(), true);
        let again = fork_init();
        *opened() = before;
        assert_eq!(again, Ok(()));
    }
}
