//! The abilities of an endpoint in each state of its id.

use super::Ep;
use crate::cm::space::{PortSpace, Tcp, Udp};
use crate::cm::state::{
    CmState, Disconnected, Established, Mode, Requested, RouteResolved, Unusable,
};
use crate::profile::Profile;
use crate::terms::state::{Err, Init, Rts, State};

/// The states of an [endpoint](super::Ep), with the state of its queue pair. On TCP the queue pair
/// is in INIT until the endpoint is connected, then in RTS, and finally in the error state. On UDP
/// it is in RTS ([R16.6](crate::guide::rules#r16-6)).
#[diagnostic::on_unimplemented(
    message = "an endpoint cannot be created from an id in state `{Self}`",
    label = "an id in state `{Self}` has no queue pair",
    note = "create it from a resolved route (`CmId::create_ep`) or from a request (`Request::create_ep`)"
)]
pub trait EpState<PS>: CmState {
    /// The state of the queue pair.
    type Qp: State;
}
impl EpState<Tcp> for RouteResolved {
    type Qp = Init;
}
impl EpState<Tcp> for Requested {
    type Qp = Init;
}
impl EpState<Tcp> for Established {
    type Qp = Rts;
}
impl EpState<Tcp> for Disconnected {
    type Qp = Err;
}
impl EpState<Tcp> for Unusable {
    type Qp = Err;
}
impl EpState<Udp> for RouteResolved {
    type Qp = Rts;
}
impl EpState<Udp> for Requested {
    type Qp = Rts;
}
impl EpState<Udp> for Established {
    type Qp = Rts;
}
impl EpState<Udp> for Unusable {
    type Qp = Rts;
}

/// States of an [endpoint](super::Ep) in which it can post sends
/// ([R16.7](crate::guide::rules#r16-7)).
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "cannot post sends to an endpoint in state `{Self}`",
    label = "the endpoint is in state `{Self}`",
    note = "`connect` or `accept` first; only receives may be posted before"
)]
pub trait EpSends<PS>: EpState<PS, Qp = Rts> {}
impl EpSends<Tcp> for Established {}
impl<S: EpState<Udp, Qp = Rts>> EpSends<Udp> for S {}

allows! { [PS: PortSpace, S: EpSends<PS>, P: Profile, M: Mode] Ep<PS, S, P, M>: EpPost; }
