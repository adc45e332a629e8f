// Proves R11.1, ibv_post_send(3): no owned buffer on a raw queue pair.
// Enforced by `Data<E>`.
use proverbs::memory::Raw;
use proverbs::prelude::*;

profile! { Mine { entry: Raw } }

fn method(qp: &mut QueuePair<Rc, Rts, Mine>, buf: Buf) {
    // SAFETY: never called.
    unsafe { qp.post_send_unchecked(wr::Send::new(buf)) }.unwrap();
}

fn main() {}
