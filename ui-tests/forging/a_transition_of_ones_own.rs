// Proves R8.1, ibv_modify_qp(3): which transitions there are is not for programs to say.
// Enforced by `Transition`, which is sealed row by row.
use proverbs::prelude::*;
use proverbs::qp::{RcSqd, Transition};

profile! { Mine {} }

impl Transition<Rc, Reset, Mine> for RcSqd<Mine> {
    type To = Rts;
}

fn main() {}

// Safe code cannot define transitions for the crate's attributes.
