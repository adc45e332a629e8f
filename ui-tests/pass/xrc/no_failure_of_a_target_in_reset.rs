// R26.3, ibv_modify_qp(3): the legal twin of the test of this name.
use proverbs::ext::xrc::XrcTarget;
use proverbs::prelude::*;

fn failed(target: XrcTarget<Init>) {
    let _ = target.to_error();
}
