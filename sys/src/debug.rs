//! `Debug` of types whose description is one format string.

/// Implements `Debug`. It takes generic parameters in brackets if there are any, the type, and the
/// arguments of `write!`.
#[doc(hidden)]
#[macro_export]
macro_rules! impl_debug {
    ([$($params:tt)*] $t:ty, |$it:pat_param| $($format:tt)*) => {
        impl<$($params)*> std::fmt::Debug for $t {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                let $it = self;
                write!(f, $($format)*)
            }
        }
    };
    ($t:ty, |$it:pat_param| $($format:tt)*) => { $crate::impl_debug!([] $t, |$it| $($format)*); };
}
