//! Errors that carry an object: a refused verb returns its arguments.
//!
//! They do not implement `std::error::Error`, because `std`, anyhow and eyre convert only errors
//! that are `Send`, `Sync` and `'static`, and an object may lack these. [`drops_its_object`] gives
//! them separate conversions, which drop the object and keep the plain error.

use std::error::Error as StdError;
use std::fmt;

use crate::terms::error::Error;

/// The error of a refused verb: the unchanged object, and the reason.
///
/// `?` in a function that returns [`Error`] keeps the reason and drops the object. So does `?` into
/// `Box<dyn Error>`, `Box<dyn Error + Send + Sync>`, and, with the features `anyhow` and `eyre`,
/// `anyhow::Error` and `eyre::Report`. It works for every object, including one that borrows or
/// must stay on its thread. **This conversion drops the object**: a buffer returns to its pool, a
/// queue pair or a device is closed. To keep the object, take it out first:
/// [`into_object`](Self::into_object), [`into_parts`](Self::into_parts).
///
/// A `Refused` is not a [`std::error::Error`] itself; its [`error`](Self::error) is. So for
/// anyhow's and eyre's `context`, write `.map_err(Refused::into_error).context("..")`. With
/// thiserror, give the `#[source]` or `#[from]` field the type [`Error`], and convert the same way.
///
/// ```
/// # use proverbs::prelude::*;
/// # let proverbs::loopback::Pair { context, pd: _pd, .. } = proverbs::loopback::pair()?;
/// let refused: Refused<Context> = context.destroy().unwrap_err(); // `_pd` and more exist
/// assert!(refused.error.to_string().starts_with("ibv_close_device: EBUSY"));
/// let context = refused.into_object(); // as it was
/// assert!(context.query_port(1).is_ok());
///
/// fn close(context: Context) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
///     Ok(context.destroy()?) // drops it, if the kernel refuses
/// }
/// let error = close(context).unwrap_err();
/// assert!(error.is::<proverbs::Error>());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Refused<T, E = Error> {
    object: T,
    /// The reason.
    pub error: E,
}

impl<T, E> Refused<T, E> {
    #[doc(hidden)]
    pub fn new(object: T, error: E) -> Self {
        Refused { object, error }
    }

    /// The reason, which is an ordinary error. (A method as well as a field, because every error
    /// that carries an object has the method.)
    pub fn error(&self) -> &E {
        &self.error
    }

    /// The object, in its old state.
    pub fn into_object(self) -> T {
        self.object
    }

    /// The reason. Drops the object.
    pub fn into_error(self) -> E {
        self.error
    }

    /// The same reason, with the object replaced by the result of `f`.
    #[doc(hidden)]
    pub fn map<U>(self, f: impl FnOnce(T) -> U) -> Refused<U, E> {
        let (object, error) = self.into_parts();
        Refused::new(f(object), error)
    }

    /// The object, in its old state, and the reason.
    pub fn into_parts(self) -> (T, E) {
        (self.object, self.error)
    }
}

/// Like `Display`, because `main` and `unwrap` print this.
impl<T, E: fmt::Display> fmt::Debug for Refused<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl<T, E: fmt::Display> fmt::Display for Refused<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

/// Keeps the reason and drops the object.
impl<T> From<Refused<T>> for Error {
    fn from(refused: Refused<T>) -> Error {
        refused.error
    }
}

/// Like `?`, in a function that returns an object with the error. It takes the object and the
/// result, and moves the object only if the result is an error.
#[doc(hidden)]
#[macro_export]
macro_rules! or_refused {
    ($object:expr, $result:expr) => {
        match $result {
            Ok(done) => done,
            Err(error) => return Err($crate::terms::refused::Refused::new($object, error.into())),
        }
    };
}

/// Makes `?` convert an error that carries any object. It takes generic parameters in brackets, and
/// the type, which has a method `into_error`.
#[doc(hidden)]
#[macro_export]
macro_rules! __drops_its_object {
    ([$($params:tt)*] $carrier:ty) => {
        /// Keeps the plain error and drops the object: a buffer returns to its pool, an object is
        /// closed.
        impl<'a, $($params)*> From<$carrier> for Box<dyn std::error::Error + 'a> {
            fn from(carrier: $carrier) -> Self {
                carrier.into_error().into()
            }
        }

        /// Keeps the plain error and drops the object: a buffer returns to its pool, an object is
        /// closed.
        impl<'a, $($params)*> From<$carrier> for Box<dyn std::error::Error + Send + Sync + 'a> {
            fn from(carrier: $carrier) -> Self {
                carrier.into_error().into()
            }
        }

        /// With the feature `anyhow`: keeps the plain error and drops the object.
        #[cfg(feature = "anyhow")]
        impl<$($params)*> From<$carrier> for $crate::terms::refused::anyhow::Error {
            fn from(carrier: $carrier) -> Self {
                carrier.into_error().into()
            }
        }

        /// With the feature `eyre`: keeps the plain error and drops the object.
        #[cfg(feature = "eyre")]
        impl<$($params)*> From<$carrier> for $crate::terms::refused::eyre::Report {
            #[track_caller] // the report shows the location of the `?`
            fn from(carrier: $carrier) -> Self {
                carrier.into_error().into()
            }
        }
    };
}

pub use crate::__drops_its_object as drops_its_object;
#[cfg(feature = "anyhow")]
#[doc(hidden)]
pub use anyhow;
#[cfg(feature = "eyre")]
#[doc(hidden)]
pub use eyre;

drops_its_object!([T, E: StdError + Send + Sync + 'static] Refused<T, E>);

#[cfg(test)]
mod tests {
    use super::*;
    use std::rc::Rc;

    #[test]
    fn a_refusal_comes_apart() {
        let refused = |object: u8| Refused::new(object, "why");
        assert_eq!((refused(7).into_object(), refused(7).into_error()), (7, "why"));
        assert_eq!((*refused(7).error(), refused(7).to_string()), ("why", "why".to_owned()));
        assert_eq!(refused(7).map(u32::from).into_parts(), (7u32, "why"));
    }

    /// The conversion drops the object immediately, and keeps the error with its sources.
    #[test]
    fn a_conversion_drops_the_object_and_keeps_the_error() {
        let object = Rc::new(7);
        let inner = std::io::Error::other(std::fmt::Error);
        let shared: Box<dyn StdError + Send + Sync> = Refused::new(&object, inner).into();
        assert!(shared.is::<std::io::Error>());
        let error = Error::os("ibv_destroy_qp", libc::EBUSY, "");
        let local: Box<dyn StdError> = Refused::new(object.clone(), error).into();
        assert!(local.is::<Error>());
        assert_eq!(Rc::strong_count(&object), 1);
    }
}
