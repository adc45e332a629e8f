//! The functions of the stub that this process has for its libibverbs.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::mem::transmute_copy;
use std::ptr;

/// A row's work, as the stub calls it; 0 is success.
pub type Form = unsafe extern "C" fn(*mut c_void) -> c_int;

/// The stub's side of the measurement (`benches/stub/stub.c`).
pub struct Stub {
    reset: unsafe extern "C" fn(u32),
    forget: unsafe extern "C" fn(),
    image: unsafe extern "C" fn(*mut *const u8) -> usize,
    pending: unsafe extern "C" fn() -> u32,
    measure: unsafe extern "C" fn(Form, *mut c_void) -> c_int,
    dump: unsafe extern "C" fn(*const c_char),
    is_counting: unsafe extern "C" fn() -> c_int,
}

impl Stub {
    /// The functions of the libibverbs that is loaded; an error if it is not ours.
    pub fn find() -> Result<Self, String> {
        // SAFETY: the stub has no constructors, and the real library none that need anything.
        let handle = unsafe { libc::dlopen(c"libibverbs.so.1".as_ptr(), libc::RTLD_NOW) };
        let find = |name: &CStr| {
            // SAFETY: an open handle, or null, which means the program itself.
            let symbol = unsafe { libc::dlsym(handle, name.as_ptr()) };
            let why = "this process has the real libibverbs; run it with `cargo xtask field`";
            if symbol.is_null() { Err(why.to_owned()) } else { Ok(symbol) }
        };
        macro_rules! function {
            ($name:literal) => {{
                let symbol = find($name)?;
                // SAFETY: the field's type is that of the function in stub.c.
                unsafe { transmute_copy(&symbol) }
            }};
        }
        Ok(Stub {
            reset: function!(c"stub_reset"),
            forget: function!(c"stub_forget"),
            image: function!(c"stub_image"),
            pending: function!(c"stub_pending"),
            measure: function!(c"stub_measure"),
            dump: function!(c"stub_dump"),
            is_counting: function!(c"stub_is_counting"),
        })
    }

    /// Forgets what was posted; whether every send completes from now on.
    pub fn reset(&self, signal_all: bool) {
        // SAFETY: no precondition.
        unsafe { (self.reset)(signal_all.into()) }
    }

    /// Forgets what was noted; what nobody polled stays.
    pub fn forget(&self) {
        // SAFETY: no precondition.
        unsafe { (self.forget)() }
    }

    /// What was posted since the last reset, as the words that the stub wrote.
    pub fn image(&self) -> Vec<u64> {
        let mut at = ptr::null();
        // SAFETY: `at` is a local.
        let len = unsafe { (self.image)(&mut at) };
        // SAFETY: the stub gave `len` bytes at `at`.
        let bytes = unsafe { std::slice::from_raw_parts(at, len) };
        bytes.chunks_exact(8).map(|word| u64::from_ne_bytes(word.try_into().expect("8"))).collect()
    }

    /// Completions that nobody polled.
    pub fn pending(&self) -> u32 {
        // SAFETY: no precondition.
        unsafe { (self.pending)() }
    }

    /// One call that is counted.
    ///
    /// # Safety
    /// The form may be called with this environment.
    pub unsafe fn measure(&self, form: Form, env: *mut c_void) -> c_int {
        // SAFETY: the form may be called with this environment (this function's contract).
        unsafe { (self.measure)(form, env) }
    }

    /// Ends a count.
    pub fn dump(&self, label: &str) {
        let Ok(label) = CString::new(label) else { return };
        // SAFETY: a NUL-terminated string.
        unsafe { (self.dump)(label.as_ptr()) }
    }

    /// Whether callgrind looks on.
    pub fn is_counting(&self) -> bool {
        // SAFETY: no precondition.
        unsafe { (self.is_counting)() != 0 }
    }
}
