// Proves R8.7, R4.6, R5.6, ibv_modify_qp(3): no unchecked constructor.
// Enforced by the types of bounded.rs.
use proverbs::prelude::*;

fn psn() -> Psn {
    Psn(0x100_0000)
}

fn depth() -> ReadDepth {
    ReadDepth(0)
}

fn main() {}
