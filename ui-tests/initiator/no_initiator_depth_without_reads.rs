// Proves R4.6, ibv_modify_qp(3): an initiator depth is set where there are READs.
// Enforced by the profile's `Initiator`.
use proverbs::endpoint::RcConnector;
use proverbs::prelude::*;

profile! { Quiet { initiator: NoReads } }

fn depth(connector: &mut RcConnector<Quiet>) {
    connector.set_initiator_depth(ReadDepth::ONE);
}

fn main() {}
