// R11.1, ibv_post_send(3): no safe post on a raw queue pair.
// Enforced by `Owned`.
use proverbs::*;

profile! { Mine { entry: Raw } }

fn method(qp: &mut QueuePair<Rc, Rts, Mine>, sge: Sge<'_, 1>) {
    qp.post_send(Send::new(sge)).unwrap();
}

fn in_a_list(qp: &mut QueuePair<Rc, Rts, Mine>, sge: Sge<'_, 1>) {
    post_send!(qp, [Send::new(sge)]).unwrap();
}

fn receive(qp: &mut QueuePair<Rc, Rts, Mine>, sge: Sge<'_, 1>) {
    qp.post_recv(Recv::new(sge)).unwrap();
}

fn main() {}
