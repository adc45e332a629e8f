// R11.1, ibv_post_send(3): no unchecked post without unsafe.
// Enforced by `unsafe fn`.
use proverbs::*;

profile! { Mine { entry: Raw } }

fn method(qp: &mut QueuePair<Rc, Rts, Mine>, sge: Sge<'_, 1>) {
    qp.post_send_unchecked(Send::new(sge)).unwrap();
}

fn main() {}
