//! Fields of completions that both the device and the crate use.

use std::fmt;

use crate::types::ibv_wc_status;

/// The queue of a work request (`Completion::direction`): `opcode & IBV_WC_RECV` in C ([R10.2]).
///
/// [R10.2]: https://docs.rs/proverbs/latest/proverbs/guide/rules/index.html#r10-2
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// The send queue.
    Send,
    /// A receive queue.
    Receive,
}

macro_rules! statuses {
    ($($name:ident = $c:ident, $text:literal;)*) => {
        /// The status of a completion that is not a success (`enum ibv_wc_status` of
        /// ibv_poll_cq(3)), part of a [`WcError`].
        ///
        /// [`WcError`]: https://docs.rs/proverbs/latest/proverbs/completion/struct.WcError.html
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
            #[doc(hidden)]
            pub fn from_c(status: u32) -> Self {
                match status {
                    $(ibv_wc_status::$c => WcStatus::$name,)*
                    other => WcStatus::Unknown(other),
                }
            }

            /// The number in C, for the loopback device.
            #[doc(hidden)]
            pub fn to_c(self) -> u32 {
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
    LocLen = IBV_WC_LOC_LEN_ERR, "local length error: the message is longer than the buffers of its receive, or than the port carries";
    LocQpOp = IBV_WC_LOC_QP_OP_ERR, "local queue pair operation error: the queue pair \
        cannot execute the request. For LOCAL_INV, the key is not valid, perhaps because the peer \
        invalidated it";
    LocEecOp = IBV_WC_LOC_EEC_OP_ERR, "local EE context operation error";
    LocProt = IBV_WC_LOC_PROT_ERR, "local protection error";
    WrFlush = IBV_WC_WR_FLUSH_ERR, "flushed: the queue pair is in the error state";
    MwBind = IBV_WC_MW_BIND_ERR, "memory window bind error";
    BadResp = IBV_WC_BAD_RESP_ERR, "bad response";
    LocAccess = IBV_WC_LOC_ACCESS_ERR, "local access error";
    RemInvReq = IBV_WC_REM_INV_REQ_ERR, "remote invalid request: the message is longer than the peer's receive, or the peer's queue pair does not allow the operation (`access` of its INIT). Of a receive: the message invalidates a key that is not valid here";
    RemAccess = IBV_WC_REM_ACCESS_ERR, "remote access error: the key, the range or the rights do \
        not match a region that the peer has registered, or a window that it has bound";
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
    /// Whether the work request was flushed, which is a consequence of an earlier failure, not a
    /// cause ([R10.9]).
    ///
    /// [R10.9]: https://docs.rs/proverbs/latest/proverbs/guide/rules/index.html#r10-9
    pub fn is_flush(self) -> bool {
        self == WcStatus::WrFlush
    }
}
