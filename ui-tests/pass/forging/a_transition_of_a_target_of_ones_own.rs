// R8.1, ibv_modify_qp(3): the legal twin of the test of this name.
use proverbs::ext::xrc::{TargetTransition, XrcTarget};
use proverbs::prelude::*;
use proverbs::state::State;

fn step<S: State, A: TargetTransition<S>>(
    target: XrcTarget<S>,
    attr: A,
) -> Result<XrcTarget<A::To>, proverbs::Error> {
    Ok(target.modify(attr)?)
}

fn init(target: XrcTarget<Reset>) -> Result<XrcTarget<Init>, proverbs::Error> {
    step(target, ConnectedInit { pkey_index: 0, port: 1, access: QpAccess::all() })
}
