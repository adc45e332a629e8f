//! Forks and registered memory.

use crate::absence::{self, Wanted};
use crate::device;
use crate::terms::error::Error;

decoded_enum! {
    /// Whether a program with registered memory may fork (`ibv_is_fork_initialized`, [R17.4]).
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// use proverbs::device::{ForkStatus, fork_status};
    /// match fork_status() {
    ///     ForkStatus::Disabled => println!("do not fork while memory is registered"),
    ///     ForkStatus::Enabled | ForkStatus::Unneeded => println!("fork away"),
    /// }
    /// ```
    ///
    /// [R17.4]: https://docs.rs/proverbs/latest/proverbs/guide/rules/index.html#r17-4
    #[doc(alias = "ibv_fork_status")]
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum ForkStatus: u32, else Disabled {
        /// It must not fork: the kernel might give registered pages to the child instead of the
        /// parent.
        #[doc(alias = "IBV_FORK_DISABLED")]
        Disabled = 0,
        /// It may fork: the library keeps registered pages out of children ([`fork_init`], or the
        /// environment).
        #[doc(alias = "IBV_FORK_ENABLED")]
        Enabled = 1,
        /// It may fork: the kernel copies pinned pages.
        #[doc(alias = "IBV_FORK_UNNEEDED")]
        Unneeded = 2,
    }
}

/// The effect of a fork on registered memory, see [`ForkStatus`]. In no case may a child use verbs
/// objects ([R17.5]).
///
/// [R17.5]: https://docs.rs/proverbs/latest/proverbs/guide/rules/index.html#r17-5
#[doc(alias = "ibv_is_fork_initialized")]
pub fn fork_status() -> ForkStatus {
    ForkStatus::from_c(device::fork_status())
}

/// Makes the library keep registered pages out of children from now on (`ibv_fork_init`). Call it
/// before the first device is opened. Returns the status, which is not
/// [`Disabled`](ForkStatus::Disabled).
///
/// A child does not have those pages: an access raises SIGSEGV, even to other data on the same
/// page. A child that calls exec(2) at once, like a [`Command`](std::process::Command), does not
/// access them. If the kernel copies pinned pages, this call does nothing, and no page is missing.
///
/// ```
/// use proverbs::device::{ForkStatus, fork_init};
/// # if cfg!(miri) { return Ok(()) }
/// assert_ne!(fork_init()?, ForkStatus::Disabled); // early in `main`
/// # Ok::<(), proverbs::Error>(())
/// ```
///
/// # Errors
/// [`ErrorKind::Os`](crate::terms::error::ErrorKind::Os): EINVAL if a device, or a channel of
/// rdma_cm, was opened already; ENOSYS or another errno of `ibv_fork_init` if the kernel cannot do
/// it. [`ErrorKind::Absent`](crate::terms::error::ErrorKind::Absent) if libibverbs cannot be
/// loaded.
#[doc(alias = "ibv_fork_init")]
pub fn fork_init() -> Result<ForkStatus, Error> {
    const VERB: &str = "ibv_fork_init";
    match device::fork_init() {
        Ok(()) => {
            let status = fork_status();
            crate::event!(INFO, "proverbs::device", "fork initialized", status = ?status,);
            Ok(status)
        }
        Err(errno @ libc::ELIBACC) => Err(absence::error(VERB, Wanted::Any, errno, "")),
        Err(errno) => Err(Error::os(VERB, errno, why(errno))),
    }
}

fn why(errno: i32) -> &'static str {
    if errno == libc::EINVAL { "a device was opened before: call it first in `main`" } else { "" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_status_permits_a_fork_or_not() {
        assert!(why(libc::EINVAL).contains("in `main`") && why(libc::EPERM).is_empty());
        let all = [0, 1, 2].map(ForkStatus::from_c);
        assert_eq!(all, [ForkStatus::Disabled, ForkStatus::Enabled, ForkStatus::Unneeded]);
    }
}
