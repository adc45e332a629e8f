// R4.6, ibv_modify_qp(3): the legal twin of the test of this name.
use proverbs::endpoint::RcConnector;
use proverbs::prelude::*;

profile! { Quiet { initiator: Reads } }

fn depth(connector: &mut RcConnector<Quiet>) {
    connector.set_initiator_depth(ReadDepth::ONE);
}
