// R11.1, ibv_post_send(3): the legal twin of the test of this name.
use proverbs::memory::Raw;
use proverbs::prelude::*;

profile! { Mine { entry: Raw } }

fn method(qp: &mut QueuePair<Rc, Rts, Mine>, sge: wr::Sge<'_, 1>) {
    // SAFETY: never called.
    unsafe { qp.post_send_unchecked(wr::Send::new(sge)) }.unwrap();
}
