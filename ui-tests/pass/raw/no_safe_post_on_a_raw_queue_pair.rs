// R11.1, ibv_post_send(3): the legal twin of the test of this name.
use proverbs::memory::Raw;
use proverbs::prelude::*;

profile! { Mine { entry: Raw } }

fn method(qp: &mut QueuePair<Rc, Rts, Mine>, sge: wr::Sge<'_, 1>) {
    // SAFETY: never called.
    unsafe { qp.post_send_unchecked(wr::Send::new(sge)) }.unwrap();
}

fn prepared(qp: &mut QueuePair<Rc, Rts>, buf: Buf) {
    qp.post_prepared(&mut wr::Send::new(wr::Placeholder).prepare(), buf).unwrap();
}

fn prepared_inline(qp: &mut QueuePair<Rc, Rts>) {
    qp.post_prepared_inline(&mut wr::Send::inline(b"beat").prepare()).unwrap();
}
