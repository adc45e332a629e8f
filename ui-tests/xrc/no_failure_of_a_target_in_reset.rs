// Proves R26.3, ibv_modify_qp(3): a target goes to ERR from every state but RESET.
// Enforced by `CanFail`.
use proverbs::prelude::*;
use proverbs::ext::xrc::XrcTarget;

fn failed(target: XrcTarget<Reset>) {
    let _ = target.to_error();
}

fn main() {}
