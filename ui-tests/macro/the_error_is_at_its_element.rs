// R1.1, ibv_post_send(3): the error is at its element.
// Enforced by `PostOn<T>`.
use proverbs::*;

fn list(qp: &mut QueuePair<Uc, Rts>, [a, b, c]: [Buf; 3], at: RemoteSpan, from: RemoteSpan<ToRead>) {
    post_send!(qp, [Send::new(a), RdmaRead::new(b, from), RdmaWrite::new(c, at)]).unwrap();
}

fn main() {}
