// R8.7, R4.6, ibv_modify_qp(3): the legal twin of the test of this name.
use proverbs::prelude::*;

fn psn() -> Option<Psn> {
    Psn::new(0x100_0000)
}

fn depth() -> Option<ReadDepth> {
    ReadDepth::new(0)
}
