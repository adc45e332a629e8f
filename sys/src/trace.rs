//! The events of the feature `tracing`: docs/tracing.md lists them. Without the feature there is no
//! code for them.

#[cfg(feature = "tracing")]
use std::panic::{AssertUnwindSafe, catch_unwind};

#[cfg(feature = "tracing")]
#[doc(hidden)]
pub use tracing;

/// Reports an event. A subscriber is code of the program and may panic, which must not unwind
/// through calls that are half done.
#[cfg(feature = "tracing")]
#[doc(hidden)]
pub fn report(event: impl FnOnce()) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(event)) {
        std::mem::forget(panic); // its `Drop` may panic, too
    }
}

/// An event: its level, its target, its name, and fields as `tracing::event!` takes them.
#[cfg(feature = "tracing")]
#[doc(hidden)]
#[macro_export]
macro_rules! event {
    ($level:ident, $target:literal, $name:literal, $($fields:tt)*) => {
        $crate::trace::report(|| {
            $crate::trace::tracing::event!(
                name: $name,
                target: $target,
                $crate::trace::tracing::Level::$level,
                { $($fields)* },
                $name
            );
        })
    };
}

/// No event: the feature is off.
#[cfg(not(feature = "tracing"))]
#[doc(hidden)]
#[macro_export]
macro_rules! event {
    ($($event:tt)*) => {};
}
