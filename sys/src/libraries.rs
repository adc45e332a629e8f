//! libibverbs, librdmacm and libefa. Each is loaded when one of its functions is first used.
//!
//! A program on a host without them starts, and can use the loopback device. A function of a
//! missing library fails with ELIBACC, and a function that an older library lacks with ENOSYS.

// No model: a library is loaded once, and a function lookup has the same result in every thread.

use std::ffi::{CStr, c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Mutex, PoisonError};

/// The name of a function, and its version.
type Named = (&'static CStr, &'static CStr);

/// A library. It is never unloaded.
pub struct Library {
    file: &'static str,
    /// A function and its version, which each file of this name has.
    probe: Named,
    /// Null until it is loaded.
    handle: AtomicPtr<c_void>,
    /// The dynamic linker's reason for the last failure.
    failure: Mutex<String>,
}

pub static VERBS: Library =
    Library::new("libibverbs.so.1", (c"ibv_get_device_list", c"IBVERBS_1.1"));
#[cfg(feature = "cm")]
pub static CM: Library = Library::new("librdmacm.so.1", (c"rdma_create_id", c"RDMACM_1.0"));
/// The EFA provider, which has additional functions. libibverbs loads the same file.
pub static EFA: Library = Library::new("libefa.so.1", (c"efadv_query_ah", c"EFA_1.1"));

impl Library {
    const fn new(file: &'static str, probe: Named) -> Self {
        let handle = AtomicPtr::new(ptr::null_mut());
        Library { file, probe, handle, failure: Mutex::new(String::new()) }
    }

    /// Its file name.
    pub fn file(&self) -> &'static str {
        self.file
    }

    /// Whether it is loaded. Tries to load it if not.
    pub fn is_here(&self) -> bool {
        !self.handle().is_null()
    }

    /// The dynamic linker's reason for the last failure to load it.
    pub fn failure(&self) -> String {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The errno for a function that is not found.
    pub fn lacking(&self) -> c_int {
        if self.is_here() { libc::ENOSYS } else { libc::ELIBACC }
    }

    /// The handle, or null. A failure is not final, since the process may only lack descriptors.
    fn handle(&self) -> *mut c_void {
        let known = self.handle.load(Ordering::Acquire);
        if known.is_null() { self.load() } else { known }
    }

    #[cold]
    fn load(&self) -> *mut c_void {
        let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        match linker::open(self.file) {
            Ok(handle) => {
                self.handle.store(handle, Ordering::Release);
                handle
            }
            Err(reason) => {
                *failure = reason;
                ptr::null_mut()
            }
        }
    }

    /// The function that a linked program gets: with this version, or without one, with the default
    /// version. Null if there is none.
    ///
    /// As in a linked program, a function of an object that was loaded before (`LD_PRELOAD`) takes
    /// precedence.
    pub fn find(&self, name: &CStr, version: Option<&CStr>) -> *mut c_void {
        let handle = self.handle();
        if handle.is_null() { handle } else { linker::find(handle, name, version, self.probe) }
    }
}

/// The dynamic linker.
#[cfg(not(any(target_feature = "crt-static", miri)))]
mod linker {
    use std::ffi::{CStr, CString, c_void};
    use std::mem::zeroed;

    use super::Named;

    /// Loads a library, and returns its handle or the reason of the failure.
    pub fn open(file: &str) -> Result<*mut c_void, String> {
        let file = CString::new(file).expect("no NUL");
        // SAFETY: the name is a C string. The library's initialisers run as in any program that is
        // linked to it.
        let handle = unsafe { libc::dlopen(file.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if handle.is_null() { Err(failure()) } else { Ok(handle) }
    }

    fn failure() -> String {
        // SAFETY: may be called at any time. The text belongs to this thread until its next call.
        let text = unsafe { libc::dlerror() };
        if text.is_null() {
            return "unknown".into();
        }
        // SAFETY: a C string, and no other call was made since.
        unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
    }

    /// The function of this name in the library of `handle`, which is never closed.
    pub fn find(
        handle: *mut c_void,
        name: &CStr,
        version: Option<&CStr>,
        probe: Named,
    ) -> *mut c_void {
        // SAFETY: the name is a C string.
        let first = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
        let own = own(handle, name, version, probe);
        // (If the library lacks the function, no other object can override it.)
        let is_own = own.is_null() || first.is_null() || object(first) == object(own);
        if is_own { own } else { first }
    }

    #[cfg(target_env = "gnu")]
    fn own(handle: *mut c_void, name: &CStr, version: Option<&CStr>, probe: Named) -> *mut c_void {
        // SAFETY: the names are C strings, and the handle belongs to an object that stays loaded.
        unsafe {
            let default = libc::dlsym(handle, name.as_ptr());
            let Some(version) = version else { return default };
            let own = libc::dlvsym(handle, name.as_ptr(), version.as_ptr());
            // A library that replaces libibverbs, such as a tracer or a stub, may have no versions.
            // A linked program uses it anyway.
            let (known, since) = probe;
            let is_versioned = !libc::dlvsym(handle, known.as_ptr(), since.as_ptr()).is_null();
            if own.is_null() && !is_versioned { default } else { own }
        }
    }

    /// musl has no versions: a name means its default version.
    #[cfg(not(target_env = "gnu"))]
    fn own(handle: *mut c_void, name: &CStr, _: Option<&CStr>, _: Named) -> *mut c_void {
        // SAFETY: the name is a C string, and the handle belongs to an object that stays loaded.
        unsafe { libc::dlsym(handle, name.as_ptr()) }
    }

    /// The base address of the object that contains a function; null if there is none.
    fn object(function: *mut c_void) -> *mut c_void {
        // SAFETY: integers and pointers, for which all zeroes is a value.
        let mut info: libc::Dl_info = unsafe { zeroed() };
        // SAFETY: any address is allowed, and `info` is a local.
        unsafe { libc::dladdr(function, &mut info) };
        info.dli_fbase
    }
}

/// A statically linked program has no dynamic linker, and Miri loads no libraries.
#[cfg(any(target_feature = "crt-static", miri))]
mod linker {
    use std::ffi::{CStr, c_void};

    use super::Named;

    pub fn open(_: &str) -> Result<*mut c_void, String> {
        Err(if cfg!(miri) {
            "Miri loads no libraries".into()
        } else {
            "this program is linked statically: build it with `-C target-feature=-crt-static`"
                .into()
        })
    }

    pub fn find(_: *mut c_void, _: &CStr, _: Option<&CStr>, _: Named) -> *mut c_void {
        std::ptr::null_mut()
    }
}

#[cfg(all(test, target_env = "gnu", not(any(target_feature = "crt-static", miri))))]
mod tests {
    use super::*;

    /// A name may mean another function in each version. The requested version is found, and no
    /// other.
    #[test]
    fn a_function_is_found_by_its_version() {
        let find = |version| VERBS.find(c"ibv_reg_mr", version);
        assert!(VERBS.is_here(), "{}", VERBS.failure());
        let [old, new, none] = [c"IBVERBS_1.0", c"IBVERBS_1.1", c"IBVERBS_9.9"].map(Some).map(find);
        assert!(!old.is_null() && !new.is_null() && old != new);
        assert_eq!((find(None), none), (new, ptr::null_mut()), "the default is the newest");
        // This also holds if the program is linked to the library, whose default would be found
        // first. SAFETY: the name is a C string, and the library is loaded already.
        unsafe { libc::dlopen(c"libibverbs.so.1".as_ptr(), libc::RTLD_NOW | libc::RTLD_GLOBAL) };
        let versions = [c"IBVERBS_1.0", c"IBVERBS_1.1", c"IBVERBS_9.9"].map(Some).map(find);
        assert_eq!(versions, [old, new, ptr::null_mut()]);
        assert!(VERBS.find(c"ibv_no_such_verb", None).is_null());
        assert_eq!(VERBS.lacking(), libc::ENOSYS);
    }

    /// The error has the name of the file, and is not final.
    #[test]
    fn a_missing_library_is_reported() {
        let none = Library::new("libno_such_library.so.1", (c"none", c"none"));
        assert!(!none.is_here() && none.find(c"none", None).is_null());
        assert!(none.failure().contains("libno_such_library.so.1"), "{}", none.failure());
        assert_eq!(none.lacking(), libc::ELIBACC);
    }
}
