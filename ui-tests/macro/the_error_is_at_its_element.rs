// Proves R1.1, ibv_post_send(3): the error is at its element.
// Enforced by `PostOn<T>`.
use proverbs::memory::ToRead;
use proverbs::prelude::*;

fn list(
    qp: &mut QueuePair<Uc, Rts>,
    [a, b, c]: [Buf; 3],
    at: RemoteSpan,
    from: RemoteSpan<ToRead>,
) {
    post_send!(qp, [wr::Send::new(a), wr::RdmaRead::new(b, from), wr::RdmaWrite::new(c, at)])
        .unwrap();
}

fn main() {}
