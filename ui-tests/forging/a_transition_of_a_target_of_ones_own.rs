// Proves R8.1, ibv_modify_qp(3): which transitions a target of XRC has is not for programs to say.
// Enforced by `TargetTransition`, whose supertrait no other crate can name.
use proverbs::prelude::*;
use proverbs::qp::{TargetTransition, XrcTarget};

struct Mine;

impl TargetTransition<Reset> for Mine {
    type To = Rts;
}

fn skip(target: XrcTarget<Reset>) -> Result<XrcTarget<Rts>, proverbs::Error> {
    Ok(target.modify(Mine)?)
}

fn main() {}

// Holds A8: safe code cannot define a transition with other attributes.
