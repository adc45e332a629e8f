//! The result of a work request.

use std::fmt;

use crate::completion::wc::Promised;
pub use crate::terms::wc::WcStatus;

/// Why a work request failed (`status` and `vendor_err` of ibv_poll_cq(3)).
///
/// ```
/// # use proverbs::prelude::*;
/// use proverbs::completion::WcError;
/// # let proverbs::loopback::Pair { mut a, b: _b, mut cq, .. } = proverbs::loopback::pair()?;
/// let gone = RemoteSlice::<RemoteWrite>::from_parts(0x1000, 8, 0xbad); // not a valid key
/// a.post_send(wr::RdmaWrite::inline(b"8 bytes!", gone.write()))?;
/// let error: WcError = loop {
///     if let Some(completion) = cq.poll_one()? {
///         break completion.status().unwrap_err();
///     }
/// };
/// assert_eq!((error.status, error.qp_num), (WcStatus::RemAccess, a.qp_num()));
/// assert!(!error.status.is_flush()); // a cause, not a consequence
/// assert!(error.to_string().contains("IBV_WC_REM_ACCESS_ERR: remote access error"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias = "ibv_wc")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WcError {
    /// The status.
    pub status: WcStatus,
    /// The vendor's error code. Its meaning depends on the device.
    pub vendor_err: u32,
    /// The number of the queue pair, which is now in the error state (on UC and UD possibly in SQE,
    /// [R8.16](crate::guide::rules#r8-16)).
    pub qp_num: u32,
}

impl fmt::Display for WcError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "QP {:#08x}: {}", self.qp_num, self.status)
    }
}

impl std::error::Error for WcError {}

impl WcError {
    /// The error of a completion that did not succeed.
    #[inline(always)]
    pub(super) fn of(wc: Promised<'_>) -> Self {
        #[cfg(feature = "tracing")]
        trace(wc);
        WcError {
            status: WcStatus::from_c(wc.status()),
            vendor_err: wc.vendor_err(),
            qp_num: wc.qp_num(),
        }
    }
}

/// Reports an original failure. The flushes that follow it are not reported.
#[cfg(feature = "tracing")]
#[cold]
fn trace(wc: Promised<'_>) {
    let status = WcStatus::from_c(wc.status());
    if !status.is_flush() {
        crate::sys::event!(
            WARN, "proverbs::completion", "failed",
            qp_num = wc.qp_num(), status = %status, vendor_err = wc.vendor_err(),
        );
    }
}

/// Like `WcError::of`, but out of line and in two registers, because values passed by reference
/// must be in memory.
#[cold]
#[inline(never)]
#[allow(improper_ctypes_definitions)] // `extern "C"` promises not to unwind
pub(super) extern "C" fn error_of(wc: Promised<'_>) -> WcError {
    WcError::of(wc)
}
