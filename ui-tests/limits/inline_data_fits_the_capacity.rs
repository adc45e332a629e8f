// Proves R2.7, ibv_post_send(3): inline data fits the capacity.
// Enforced by `InlineBytes<N>`.
use proverbs::post::SendList;
use proverbs::prelude::*;

fn method(qp: &mut QueuePair<Rc, Rts>, bytes: &[u8; 100]) {
    qp.post_send(wr::Send::inline(bytes)).unwrap();
}

fn in_a_list(qp: &mut QueuePair<Rc, Rts>, bytes: &[u8; 100]) {
    post_send!(qp, [wr::Send::inline(bytes)]).unwrap();
}

fn in_a_run_time_list(list: &mut SendList<Rc, DefaultProfile, 1>, bytes: &'static [u8; 65]) {
    list.push(wr::Send::inline(bytes)).unwrap();
}

fn main() {}
