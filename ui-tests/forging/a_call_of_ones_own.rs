// Proves R8.1, ibv_modify_qp(3): which state allows a call is not for programs to say.
// Enforced by `Allows`, which no other crate can implement, for a call of its own either.
use proverbs::prelude::*;
use proverbs::rules::Allows;
use proverbs::state::Reset;

enum Mine {}

impl Allows<Mine> for QueuePair<Rc, Reset> {
    const SEAL: () = ();
}

fn main() {}
