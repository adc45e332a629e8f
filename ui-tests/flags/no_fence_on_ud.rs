// Proves R2.1, ibv_post_send(3): no fence on ud.
// Enforced by `FenceOn<T>`.
use proverbs::prelude::*;

fn method(qp: &mut QueuePair<Ud, Rts>, buf: Buf, to: wr::Destination) {
    qp.post_send(wr::Send::new(buf).to(to).fence()).unwrap();
}

fn in_a_list(qp: &mut QueuePair<Ud, Rts>, buf: Buf, to: wr::Destination) {
    post_send!(qp, [wr::Send::new(buf).to(to).fence()]).unwrap();
}

fn main() {}
