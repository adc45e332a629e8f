//! The result of a work request.

use std::fmt;

use crate::completion::wc::Promised;
use crate::sys::types::ibv_wc_status;

/// Why a work request failed (`status` and `vendor_err` of ibv_poll_cq(3)).
///
/// ```
/// # use proverbs::prelude::*;
/// use proverbs::completion::WcError;
/// # let proverbs::loopback::Pair { mut a, b: _b, mut cq, .. } = proverbs::loopback::pair()?;
/// let gone = RemoteSlice::<RemoteWrite>::from_parts(0x1000, 8, 0xbad); // a key that nobody gave
/// a.post_send(wr::RdmaWrite::inline(b"8 bytes!", gone.write()))?;
/// let error: WcError = loop {
///     if let Some(completion) = cq.poll_one()? {
///         break completion.status().unwrap_err();
///     }
/// };
/// assert_eq!((error.status, error.qp_num), (WcStatus::RemAccess, a.qp_num()));
/// assert!(!error.status.is_flush()); // a cause, not a consequence
/// assert!(error.to_string().ends_with("IBV_WC_REM_ACCESS_ERR: remote access error"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias = "ibv_wc")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WcError {
    /// The status.
    pub status: WcStatus,
    /// The vendor's code, a hint for readers who know the device.
    pub vendor_err: u32,
    /// The number of the queue pair, which is in the error state now (on UC and UD perhaps in SQE,
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
    /// That of a completion that is no success.
    #[inline(always)]
    pub(super) fn of(wc: Promised<'_>) -> Self {
        WcError {
            status: WcStatus::from_c(wc.status()),
            vendor_err: wc.vendor_err(),
            qp_num: wc.qp_num(),
        }
    }
}

/// As `WcError::of`, out of line and in two registers, because what is passed by reference must be
/// in memory.
#[cold]
#[inline(never)]
#[allow(improper_ctypes_definitions)] // for its promise not to unwind, not for C
pub(super) extern "C" fn error_of(wc: Promised<'_>) -> WcError {
    WcError::of(wc)
}

macro_rules! statuses {
    ($($name:ident = $c:ident, $text:literal;)*) => {
        /// The status of a completion that is not a success (`enum ibv_wc_status` of
        /// ibv_poll_cq(3)), part of a [`WcError`].
        #[doc(alias("IBV_WC_SUCCESS", "IBV_WC_LOC_LEN_ERR", "IBV_WC_LOC_QP_OP_ERR"))]
        #[doc(alias("IBV_WC_LOC_EEC_OP_ERR", "IBV_WC_LOC_PROT_ERR", "IBV_WC_WR_FLUSH_ERR"))]
        #[doc(alias("IBV_WC_MW_BIND_ERR", "IBV_WC_BAD_RESP_ERR", "IBV_WC_LOC_ACCESS_ERR"))]
        #[doc(alias("IBV_WC_REM_INV_REQ_ERR", "IBV_WC_REM_ACCESS_ERR", "IBV_WC_REM_OP_ERR"))]
        #[doc(alias("IBV_WC_RETRY_EXC_ERR", "IBV_WC_RNR_RETRY_EXC_ERR", "IBV_WC_LOC_RDD_VIOL_ERR"))]
        #[doc(alias("IBV_WC_REM_INV_RD_REQ_ERR", "IBV_WC_REM_ABORT_ERR", "IBV_WC_INV_EECN_ERR"))]
        #[doc(alias("IBV_WC_INV_EEC_STATE_ERR", "IBV_WC_FATAL_ERR", "IBV_WC_RESP_TIMEOUT_ERR"))]
        #[doc(alias("IBV_WC_GENERAL_ERR", "ibv_wc_status_str", "ibv_wc_status"))]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum WcStatus {
            $(#[doc = $text] $name,)*
            /// A status that this crate does not know.
            Unknown(u32),
        }

        impl WcStatus {
            pub(crate) fn from_c(status: u32) -> Self {
                match status {
                    $(ibv_wc_status::$c => WcStatus::$name,)*
                    other => WcStatus::Unknown(other),
                }
            }

            /// The number in C, for the loopback device.
            #[cfg(feature = "loopback")]
            pub(crate) fn to_c(self) -> u32 {
                match self {
                    $(WcStatus::$name => ibv_wc_status::$c,)*
                    WcStatus::Unknown(status) => status,
                }
            }
        }

        impl fmt::Display for WcStatus {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    $(WcStatus::$name => f.write_str(concat!(stringify!($c), ": ", $text)),)*
                    WcStatus::Unknown(status) => write!(f, "work completion status {status}"),
                }
            }
        }
    };
}

statuses! {
    LocLen = IBV_WC_LOC_LEN_ERR, "local length error";
    LocQpOp = IBV_WC_LOC_QP_OP_ERR, "local queue pair operation error";
    LocEecOp = IBV_WC_LOC_EEC_OP_ERR, "local EE context operation error";
    LocProt = IBV_WC_LOC_PROT_ERR, "local protection error";
    WrFlush = IBV_WC_WR_FLUSH_ERR, "flushed: the queue pair is in the error state";
    MwBind = IBV_WC_MW_BIND_ERR, "memory window bind error";
    BadResp = IBV_WC_BAD_RESP_ERR, "bad response";
    LocAccess = IBV_WC_LOC_ACCESS_ERR, "local access error";
    RemInvReq = IBV_WC_REM_INV_REQ_ERR, "remote invalid request";
    RemAccess = IBV_WC_REM_ACCESS_ERR, "remote access error";
    RemOp = IBV_WC_REM_OP_ERR, "remote operation error";
    RetryExc = IBV_WC_RETRY_EXC_ERR, "transport retries exceeded: the peer does not answer";
    RnrRetryExc = IBV_WC_RNR_RETRY_EXC_ERR, "RNR retries exceeded: the peer has no receive posted";
    LocRddViol = IBV_WC_LOC_RDD_VIOL_ERR, "local RDD violation";
    RemInvRdReq = IBV_WC_REM_INV_RD_REQ_ERR, "remote invalid RD request";
    RemAbort = IBV_WC_REM_ABORT_ERR, "remote aborted";
    InvEecn = IBV_WC_INV_EECN_ERR, "invalid EE context number";
    InvEecState = IBV_WC_INV_EEC_STATE_ERR, "invalid EE context state";
    Fatal = IBV_WC_FATAL_ERR, "fatal error";
    RespTimeout = IBV_WC_RESP_TIMEOUT_ERR, "response timeout";
    General = IBV_WC_GENERAL_ERR, "general error";
}

impl WcStatus {
    /// Whether the work request was flushed: a consequence of an earlier failure, not a cause
    /// ([R10.9](crate::guide::rules#r10-9)).
    pub fn is_flush(self) -> bool {
        self == WcStatus::WrFlush
    }
}
