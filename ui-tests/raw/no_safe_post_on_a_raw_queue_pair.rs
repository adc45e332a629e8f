// Proves R11.1, ibv_post_send(3): no safe post on a raw queue pair.
// Enforced by `Owned`.
use proverbs::memory::Raw;
use proverbs::prelude::*;

profile! { Mine { entry: Raw } }

fn method(qp: &mut QueuePair<Rc, Rts, Mine>, sge: wr::Sge<'_, 1>) {
    qp.post_send(wr::Send::new(sge)).unwrap();
}

fn in_a_list(qp: &mut QueuePair<Rc, Rts, Mine>, sge: wr::Sge<'_, 1>) {
    post_send!(qp, [wr::Send::new(sge)]).unwrap();
}

fn receive(qp: &mut QueuePair<Rc, Rts, Mine>, sge: wr::Sge<'_, 1>) {
    qp.post_recv(wr::Recv::new(sge)).unwrap();
}

fn prepared(qp: &mut QueuePair<Rc, Rts, Mine>, buf: Buf) {
    qp.post_prepared(&mut wr::Send::new(wr::Placeholder).prepare(), buf).unwrap();
}

fn prepared_inline(qp: &mut QueuePair<Rc, Rts, Mine>) {
    qp.post_prepared_inline(&mut wr::Send::inline(b"beat").prepare()).unwrap();
}

fn main() {}
