// Proves R11.1: what is unsafe in an element stays the user's to write and to prove.
// Enforced by `post_send!`, which evaluates elements outside its own `unsafe`.
use proverbs::prelude::*;

unsafe fn forged() -> Buf {
    unreachable!()
}

fn list(qp: &mut QueuePair<Rc, Rts>) {
    post_send!(qp, [wr::Send::new(forged())]).unwrap();
}

fn main() {}
