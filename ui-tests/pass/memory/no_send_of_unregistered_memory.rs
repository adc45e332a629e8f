// R2.10, ibv_post_send(3): the legal twin of ui-tests/memory/no_send_of_unregistered_memory.rs.
use proverbs::*;

fn method(qp: &mut QueuePair<Rc, Rts>, bytes: &[u8; 8]) {
    qp.post_send(Send::inline(bytes)).unwrap();
}

fn in_a_list(qp: &mut QueuePair<Rc, Rts>, bytes: &[u8; 8]) {
    post_send!(qp, [Send::inline(bytes)]).unwrap();
}
