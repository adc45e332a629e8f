//! The events of the feature `tracing`: docs/tracing.md lists them. Without the feature there is no
//! code for them.

#[cfg(feature = "tracing")]
#[doc(hidden)]
pub use tracing;

/// An event: its level, its target, its name, and fields as `tracing::event!` takes them.
#[cfg(feature = "tracing")]
#[doc(hidden)]
#[macro_export]
macro_rules! event {
    ($level:ident, $target:literal, $name:literal, $($fields:tt)*) => {
        $crate::trace::tracing::event!(
            name: $name,
            target: $target,
            $crate::trace::tracing::Level::$level,
            { $($fields)* },
            $name
        )
    };
}

/// No event: the feature is off.
#[cfg(not(feature = "tracing"))]
#[doc(hidden)]
#[macro_export]
macro_rules! event {
    ($($event:tt)*) => {};
}
