//! The definition of a form, and its error handling.

use std::ffi::c_int;
use std::hint::black_box;
use std::mem::ManuallyDrop;
use std::ptr;

use proverbs::completion::WcError;
use proverbs::memory::Entry;
use proverbs::post::RawPostError;
use proverbs::{Buf, Completion, PostError};

/// `form!(name(world: Type) { body })`: a function that the stub can call. The body returns 0 on
/// success.
macro_rules! form {
    ($name:ident($world:ident: $type:ty) $body:expr) => {
        pub unsafe extern "C" fn $name(world: *mut std::ffi::c_void) -> std::ffi::c_int {
            // SAFETY: a form is called with the world of its family only.
            let $world = unsafe { &mut *world.cast::<$type>() };
            $body
        }
    };
}
pub(crate) use form;

/// The outcome of a post, checked.
pub trait Checked {
    fn code(self) -> c_int;
}

impl Checked for Result<(), RawPostError> {
    #[inline(always)]
    fn code(self) -> c_int {
        match self {
            Ok(()) => 0,
            Err(error) => raw_failed(error),
        }
    }
}

impl<E: Entry> Checked for Result<(), PostError<E>> {
    #[inline(always)]
    fn code(self) -> c_int {
        match self {
            Ok(()) => 0,
            Err(error) => post_failed(error),
        }
    }
}

#[cold]
#[inline(never)]
fn raw_failed(error: RawPostError) -> c_int {
    black_box(error.errno)
}

#[cold]
#[inline(never)]
fn post_failed<E: Entry>(error: PostError<E>) -> c_int {
    drop(error);
    black_box(-1)
}

#[cold]
#[inline(never)]
pub fn poll_failed(error: proverbs::Error) -> c_int {
    drop(error);
    black_box(-2)
}

#[cold]
#[inline(never)]
pub fn completed_badly(_: WcError) -> c_int {
    black_box(-3)
}

/// Handles an unexpected completion. Its buffer returns to its pool.
#[cold]
#[inline(never)]
#[allow(improper_ctypes_definitions)] // used for its promise not to unwind, which the C function makes as well
pub extern "C" fn failed(completion: Completion<'_, Buf>) -> c_int {
    drop(completion);
    black_box(-4)
}

/// Like `failed`, if the completion's address is not in a register.
#[cold]
#[inline(never)]
#[allow(improper_ctypes_definitions)] // as above
pub extern "C" fn failed_with(buf: Option<Buf>) -> c_int {
    drop(buf);
    black_box(-4)
}

/// Like `failed_with`, for one of several.
#[cold]
#[inline(never)]
#[allow(improper_ctypes_definitions)] // as above
pub extern "C" fn failed_among(code: &mut c_int, buf: Option<Buf>) {
    *code = failed_with(buf);
}

/// Reads the buffer of a slot, as a C program reads a pointer.
#[inline(always)]
pub fn take(slot: &ManuallyDrop<Buf>) -> Buf {
    // SAFETY: the slots contain handles that are not used while a form runs. The form posts this
    // one, and its completion returns it to the slot.
    unsafe { ptr::read(&**slot) }
}

/// The slots that completions write buffers to, starting with the first.
pub struct Slab(*mut ManuallyDrop<Buf>);

impl Slab {
    #[inline(always)]
    pub fn of(bufs: &mut [ManuallyDrop<Buf>]) -> Self {
        Slab(bufs.as_mut_ptr())
    }

    #[inline(always)]
    pub fn put(&mut self, buf: Buf) {
        // SAFETY: a form gets at most as many buffers back as there are slots.
        unsafe { self.0.write(ManuallyDrop::new(buf)) };
        // SAFETY: at most one past the last.
        self.0 = unsafe { self.0.add(1) };
    }
}
