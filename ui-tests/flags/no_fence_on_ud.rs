// R2.1, ibv_post_send(3): no fence on ud.
// Enforced by `FenceOn<T>`.
use proverbs::*;

fn method(qp: &mut QueuePair<Ud, Rts>, buf: Buf, to: Destination) {
    qp.post_send(Send::new(buf).to(to).fence()).unwrap();
}

fn in_a_list(qp: &mut QueuePair<Ud, Rts>, buf: Buf, to: Destination) {
    post_send!(qp, [Send::new(buf).to(to).fence()]).unwrap();
}

fn main() {}
