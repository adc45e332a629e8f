// Proves R2.1, ibv_post_send(3): no fence on uc.
// Enforced by `FenceOn<T>`.
use proverbs::prelude::*;

fn method(qp: &mut QueuePair<Uc, Rts>, buf: Buf) {
    qp.post_send(wr::Send::new(buf).fence()).unwrap();
}

fn in_a_list(qp: &mut QueuePair<Uc, Rts>, buf: Buf) {
    post_send!(qp, [wr::Send::new(buf).fence()]).unwrap();
}

fn main() {}
