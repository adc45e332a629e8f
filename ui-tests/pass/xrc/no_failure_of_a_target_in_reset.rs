// R26.3, ibv_modify_qp(3): the legal twin of the test of this name.
use proverbs::prelude::*;
use proverbs::qp::XrcTarget;

fn failed(target: XrcTarget<Init>) {
    let _ = target.to_error();
}
