// Proves R26.3, ibv_modify_qp(3): a target has its own transitions.
// Enforced by `TargetTransition<S>` and `Transition<T, S, P>`.
use proverbs::prelude::*;
use proverbs::ext::xrc::{XrcTarget, XrcTargetRtr};

profile! { Initiating { receive: NoRq } }

fn too_early(target: XrcTarget<Reset>, rtr: XrcTargetRtr) {
    target.modify(rtr).unwrap();
}

fn of_rc(target: XrcTarget<Init>, rtr: RcRtr) {
    target.modify(rtr).unwrap();
}

fn of_an_initiator(initiator: QueuePair<Xrc, Init, Initiating>, rtr: XrcTargetRtr) {
    initiator.modify(rtr).unwrap();
}

fn main() {}
