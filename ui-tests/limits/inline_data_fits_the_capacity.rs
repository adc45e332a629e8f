// R2.7, ibv_post_send(3): inline data fits the capacity.
// Enforced by `InlineBytes<N>`.
use proverbs::*;

fn method(qp: &mut QueuePair<Rc, Rts>, bytes: &[u8; 100]) {
    qp.post_send(Send::inline(bytes)).unwrap();
}

fn in_a_list(qp: &mut QueuePair<Rc, Rts>, bytes: &[u8; 100]) {
    post_send!(qp, [Send::inline(bytes)]).unwrap();
}

fn in_a_run_time_list(list: &mut SendList<Rc, DefaultProfile, 1>, bytes: &'static [u8; 65]) {
    list.push(Send::inline(bytes)).unwrap();
}

fn main() {}
