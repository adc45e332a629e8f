// Proves R11.1, ibv_post_send(3): no unchecked post without unsafe.
// Enforced by `unsafe fn`.
use proverbs::memory::Raw;
use proverbs::prelude::*;

profile! { Mine { entry: Raw } }

fn method(qp: &mut QueuePair<Rc, Rts, Mine>, sge: wr::Sge<'_, 1>) {
    qp.post_send_unchecked(wr::Send::new(sge)).unwrap();
}

fn main() {}
