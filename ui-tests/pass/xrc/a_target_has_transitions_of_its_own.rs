// R26.3, ibv_modify_qp(3): the legal twin of the test of this name.
use proverbs::ext::xrc::{XrcRtr, XrcTarget, XrcTargetRtr};
use proverbs::prelude::*;

profile! { Initiating { receive: NoRq } }

fn in_order(target: XrcTarget<Reset>, init: ConnectedInit, rtr: XrcTargetRtr) {
    let _: XrcTarget<Rtr> = target.modify(init).unwrap().modify(rtr).unwrap();
}

fn of_an_initiator(initiator: QueuePair<Xrc, Init, Initiating>, rtr: XrcRtr) {
    let _: QueuePair<Xrc, Rtr, Initiating> = initiator.modify(rtr).unwrap();
}
