//! Functions that a library may lack.
//!
//! They are looked up on first use, so that one program runs with older and newer libraries.

// No model: each function of the library is looked up once, with the same result in every thread.

/// Defines a struct of functions that are `None` if the library lacks them, and `symbols()`, which
/// looks them up once. A module's test may replace them for its thread (`REPLACED`).
///
/// # Safety
/// Each type is the type of the C function of this name.
macro_rules! symbols {
    ($(#[$doc:meta])* unsafe struct Symbols of $library:ident {
        $($(#[$since:meta])* $field:ident: $type:ty = $name:literal,)+
    }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Default)]
        pub struct Symbols {
            $($(#[$since])* pub $field: Option<$type>,)+
        }

        #[cfg(any(test, feature = "testing"))]
        thread_local! {
            static REPLACED: std::cell::Cell<Option<Symbols>> = const { std::cell::Cell::new(None) };
        }

        /// Test only: from here on, this thread has these functions.
        ///
        /// # Safety
        /// Each function does what the C function of this name does, as far as callers rely on it.
        #[cfg(any(test, feature = "testing"))]
        #[allow(dead_code)] // not every module has such tests
        pub unsafe fn replace_for_test(symbols: Symbols) {
            REPLACED.set(Some(symbols));
        }

        fn symbols() -> Symbols {
            static FOUND: std::sync::OnceLock<Symbols> = std::sync::OnceLock::new();
            #[cfg(any(test, feature = "testing"))]
            if let Some(replaced) = REPLACED.get() {
                return replaced;
            }
            // A missing library may be installed later, or be found once there are free
            // descriptors.
            if FOUND.get().is_none() && !$crate::libraries::$library.is_here() {
                return Symbols::default();
            }
            *FOUND.get_or_init(|| Symbols {
                // SAFETY: the function has this type, as the `unsafe` declaration that names it
                // promises, and a null pointer is a `None`.
                $($field: unsafe {
                    std::mem::transmute::<*mut std::ffi::c_void, Option<$type>>(
                        $crate::libraries::$library.find($name, None),
                    )
                },)+
            })
        }
    };
}
pub(crate) use symbols;
