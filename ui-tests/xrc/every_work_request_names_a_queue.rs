// Proves R26.1, ibv_post_send(3): every work request names a queue.
// Enforced by `Addressed<T>`.
use proverbs::bounded;
use proverbs::{ext::extended_posting::ExtendedPosting, prelude::*};

profile! { Initiating { receive: NoRq } }
profile! { InSessions { receive: NoRq, posting: ExtendedPosting } }

fn method(qp: &mut QueuePair<Xrc, Rts, Initiating>, buf: Buf) {
    qp.post_send(wr::Send::new(buf)).unwrap();
}

fn in_a_list(qp: &mut QueuePair<Xrc, Rts, InSessions>, buf: Buf, at: RemoteSpan, to: bounded::SrqNum) {
    post_send!(qp, [wr::Send::new(buf).to_srq(to), wr::RdmaWrite::inline(b"done", at)]).unwrap();
}

fn prepared(qp: &mut QueuePair<Xrc, Rts, Initiating>, buf: Buf) {
    qp.post_prepared(&mut wr::Send::new(wr::Placeholder).prepare(), buf).unwrap();
}

fn main() {}
