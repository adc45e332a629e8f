//! The stub provider and the C twins: shared objects that `cargo xtask overhead` built.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::mem::transmute_copy;
use std::ptr::NonNull;

use proverbs::raw::{ibv_context, ibv_qp};

/// One form of a row. It takes its environment and returns 0 on success.
pub type Form = unsafe extern "C" fn(*mut c_void) -> c_int;

/// A shared object, never closed.
pub struct Library {
    pub name: String,
    handle: NonNull<c_void>,
}

impl Library {
    pub fn open(name: &str, path: &str) -> Result<Self, String> {
        Self::load(name, path, libc::RTLD_LOCAL)
    }

    /// Opens an object whose functions are called by objects that are opened later.
    pub fn open_for_others(name: &str, path: &str) -> Result<Self, String> {
        Self::load(name, path, libc::RTLD_GLOBAL)
    }

    fn load(name: &str, path: &str, scope: c_int) -> Result<Self, String> {
        let file = CString::new(path).map_err(|error| error.to_string())?;
        // SAFETY: the objects have no constructors.
        let handle = unsafe { libc::dlopen(file.as_ptr(), libc::RTLD_NOW | scope) };
        let handle = NonNull::new(handle).ok_or_else(|| format!("{path}: {}", error()))?;
        Ok(Library { name: name.to_owned(), handle })
    }

    /// The function called `name`.
    ///
    /// # Safety
    /// `F` is the function pointer type of this function.
    pub unsafe fn get<F: Copy>(&self, name: &str) -> Option<F> {
        const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
        let name = CString::new(name).ok()?;
        // SAFETY: the handle is open.
        let symbol = unsafe { libc::dlsym(self.handle.as_ptr(), name.as_ptr()) };
        // SAFETY: not null, as large as an `F`, and the caller knows the function to be one.
        NonNull::new(symbol).map(|symbol| unsafe { transmute_copy(&symbol.as_ptr()) })
    }

    /// The form called `name`.
    pub fn form(&self, name: &str) -> Option<Form> {
        // SAFETY: every function that the twins export has this type.
        unsafe { self.get(name) }
    }
}

fn error() -> String {
    // SAFETY: `dlerror` may be called at any time.
    let text = unsafe { libc::dlerror() };
    if text.is_null() {
        return "unknown error".into();
    }
    // SAFETY: a NUL-terminated string, valid until the next call.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

/// The functions of `stub.c`.
pub struct Stub {
    install: unsafe extern "C" fn(*mut ibv_context),
    reset: unsafe extern "C" fn(u32),
    hold: unsafe extern "C" fn(u32),
    image: unsafe extern "C" fn(*mut *const u8) -> usize,
    pending: unsafe extern "C" fn() -> u32,
    measure: unsafe extern "C" fn(Form, *mut c_void) -> c_int,
    dump: unsafe extern "C" fn(*const c_char),
    is_counting: unsafe extern "C" fn() -> c_int,
}

impl Stub {
    pub fn load(path: &str) -> Result<Self, String> {
        let library = Library::open_for_others("stub", path)?;
        let missing = |what: &str| format!("{path} has no `{what}`");
        macro_rules! find {
            ($name:literal) => {
                // SAFETY: the field has the type of the function in stub.c.
                unsafe { library.get($name) }.ok_or_else(|| missing($name))?
            };
        }
        Ok(Stub {
            install: find!("stub_install"),
            reset: find!("stub_reset"),
            hold: find!("stub_hold"),
            image: find!("stub_image"),
            pending: find!("stub_pending"),
            measure: find!("stub_measure"),
            dump: find!("stub_dump"),
            is_counting: find!("stub_is_counting"),
        })
    }

    /// Takes over the data path of the device of `qp`.
    ///
    /// # Safety
    /// `qp` is a live `ibv_qp`.
    pub unsafe fn install(&self, qp: *mut ibv_qp) {
        // SAFETY: a live queue pair has a live context, whose function table is writable.
        unsafe { (self.install)((*qp).context) }
    }

    pub fn reset(&self, signal_all: bool) {
        // SAFETY: no precondition.
        unsafe { (self.reset)(signal_all.into()) }
    }

    /// Sets whether completions are held until their event is taken.
    pub fn hold(&self, is_held: bool) {
        // SAFETY: no precondition.
        unsafe { (self.hold)(is_held.into()) }
    }

    /// The work requests posted since the last reset.
    pub fn image(&self) -> Vec<u8> {
        let mut at = std::ptr::null();
        // SAFETY: `at` is a local.
        let len = unsafe { (self.image)(&mut at) };
        // SAFETY: the stub gave `len` bytes at `at`.
        unsafe { std::slice::from_raw_parts(at, len) }.to_vec()
    }

    /// The number of completions that were not polled.
    pub fn pending(&self) -> u32 {
        // SAFETY: no precondition.
        unsafe { (self.pending)() }
    }

    /// Makes one call and counts its instructions.
    ///
    /// # Safety
    /// The form may be called with this environment.
    pub unsafe fn measure(&self, form: Form, env: *mut c_void) -> c_int {
        // SAFETY: the stub calls the form once, with this `env`, which the caller guarantees to be
        // valid for it.
        unsafe { (self.measure)(form, env) }
    }

    /// Ends a count.
    pub fn dump(&self, label: &str) {
        let Ok(label) = CString::new(label) else { return };
        // SAFETY: a NUL-terminated string.
        unsafe { (self.dump)(label.as_ptr()) }
    }

    /// Whether callgrind is running.
    pub fn is_counting(&self) -> bool {
        // SAFETY: no precondition.
        unsafe { (self.is_counting)() != 0 }
    }
}
