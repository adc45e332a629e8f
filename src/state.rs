//! The states of a queue pair, as types.
//!
//! A state is what this program did last, not what the device is in: a device moves a queue pair
//! to the error state by itself, and posts then succeed and are flushed (rule R8.15).

use crate::sys::types::ibv_qp_state;

/// Created or reset: nothing may be posted.
pub enum Reset {}
/// Receives may be posted; nothing arrives yet.
pub enum Init {}
/// Ready to receive.
pub enum Rtr {}
/// Ready to send, as far as this program knows.
pub enum Rts {}
/// Send queue drained: sends are accepted and held.
pub enum Sqd {}
/// Send queue error (UC and UD): found by `query`, left with `modify`.
pub enum Sqe {}
/// Error: everything posted is flushed.
pub enum Error {}

/// A state of the queue pair state machine.
pub trait State: sealed::Sealed + 'static {
    /// The name in the manual pages.
    const NAME: &'static str;
    #[doc(hidden)]
    const STATE: QpState;
}

/// A state as a value, for what is known at run time only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum QpState {
    Reset,
    Init,
    Rtr,
    Rts,
    Sqd,
    Sqe,
    Error,
}

impl QpState {
    pub(crate) fn to_c(self) -> u32 {
        match self {
            QpState::Reset => ibv_qp_state::IBV_QPS_RESET,
            QpState::Init => ibv_qp_state::IBV_QPS_INIT,
            QpState::Rtr => ibv_qp_state::IBV_QPS_RTR,
            QpState::Rts => ibv_qp_state::IBV_QPS_RTS,
            QpState::Sqd => ibv_qp_state::IBV_QPS_SQD,
            QpState::Sqe => ibv_qp_state::IBV_QPS_SQE,
            QpState::Error => ibv_qp_state::IBV_QPS_ERR,
        }
    }

    pub(crate) fn from_c(state: u32) -> Option<QpState> {
        Some(match state {
            ibv_qp_state::IBV_QPS_RESET => QpState::Reset,
            ibv_qp_state::IBV_QPS_INIT => QpState::Init,
            ibv_qp_state::IBV_QPS_RTR => QpState::Rtr,
            ibv_qp_state::IBV_QPS_RTS => QpState::Rts,
            ibv_qp_state::IBV_QPS_SQD => QpState::Sqd,
            ibv_qp_state::IBV_QPS_SQE => QpState::Sqe,
            ibv_qp_state::IBV_QPS_ERR => QpState::Error,
            _ => return None,
        })
    }

    /// The name in the manual pages.
    pub fn name(self) -> &'static str {
        match self {
            QpState::Reset => "RESET",
            QpState::Init => "INIT",
            QpState::Rtr => "RTR",
            QpState::Rts => "RTS",
            QpState::Sqd => "SQD",
            QpState::Sqe => "SQE",
            QpState::Error => "ERR",
        }
    }
}

impl std::fmt::Display for QpState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

mod sealed {
    pub trait Sealed {}
}

macro_rules! states {
    ($($s:ident)*) => {$(
        impl sealed::Sealed for $s {}
        impl State for $s {
            const NAME: &'static str = stringify!($s);
            const STATE: QpState = QpState::$s;
        }
    )*};
}

states!(Reset Init Rtr Rts Sqd Sqe Error);
