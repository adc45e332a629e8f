// Proves R8.1, ibv_modify_qp(3): a program cannot define transitions of an XRC target.
// Enforced by `TargetTransition`, whose supertrait no other crate can name.
use proverbs::prelude::*;
use proverbs::ext::xrc::{TargetTransition, XrcTarget};

struct Mine;

impl TargetTransition<Reset> for Mine {
    type To = Rts;
}

fn skip(target: XrcTarget<Reset>) -> Result<XrcTarget<Rts>, proverbs::Error> {
    Ok(target.modify(Mine)?)
}

fn main() {}

// Safe code cannot define a transition with other attributes.
