// R26.1, ibv_post_send(3): the legal twin of the test of this name.
use proverbs::bounded;
use proverbs::ext::extended_posting::ExtendedPosting;
use proverbs::prelude::*;

profile! { Initiating { receive: NoRq } }
profile! { InSessions { receive: NoRq, posting: ExtendedPosting } }

fn method(qp: &mut QueuePair<Xrc, Rts, Initiating>, buf: Buf, to: bounded::SrqNum) {
    qp.post_send(wr::Send::new(buf).to_srq(to)).unwrap();
}

fn in_a_list(
    qp: &mut QueuePair<Xrc, Rts, InSessions>,
    buf: Buf,
    at: RemoteSpan,
    to: bounded::SrqNum,
) {
    post_send!(qp, [wr::Send::new(buf).to_srq(to), wr::RdmaWrite::inline(b"done", at).to_srq(to),])
        .unwrap();
}

fn prepared(qp: &mut QueuePair<Xrc, Rts, Initiating>, buf: Buf, to: bounded::SrqNum) {
    qp.post_prepared(&mut wr::Send::new(wr::Placeholder).to_srq(to).prepare(), buf).unwrap();
}
