// R2.6, ibv_post_send(3): the legal twin of the test of this name.
use proverbs::prelude::*;

fn write_inline(
    qp: &mut QueuePair<Rc, Rts>,
    at: RemoteSlice<RemoteWrite>,
) -> Result<(), PostError<Buf>> {
    qp.post_send(wr::RdmaWrite::inline(b"x", at.write()))
}
