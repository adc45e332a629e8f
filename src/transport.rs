//! The transports: what a queue pair is before anything else.

use crate::sys::types::ibv_qp_type;

/// Reliable connected: every opcode, acknowledged and in order.
pub enum Rc {}
/// Unreliable connected: SEND and RDMA WRITE, lost messages are not told.
pub enum Uc {}
/// Unreliable datagram: SEND only, one packet a message, a destination in each.
pub enum Ud {}

/// `Rc`, `Uc` or `Ud`.
pub trait Transport: sealed::Sealed + 'static {
    /// The name in the manual pages.
    const NAME: &'static str;
    #[doc(hidden)]
    const QP_TYPE: u32;
    /// Whether receives start with 40 bytes for a GRH.
    #[doc(hidden)]
    const DATAGRAM: bool;
}

mod sealed {
    pub trait Sealed {}
}

macro_rules! transport {
    ($t:ident, $name:literal, $c:ident, $datagram:literal) => {
        impl sealed::Sealed for $t {}
        impl Transport for $t {
            const NAME: &'static str = $name;
            const QP_TYPE: u32 = ibv_qp_type::$c;
            const DATAGRAM: bool = $datagram;
        }
    };
}

transport!(Rc, "RC", IBV_QPT_RC, false);
transport!(Uc, "UC", IBV_QPT_UC, false);
transport!(Ud, "UD", IBV_QPT_UD, true);
