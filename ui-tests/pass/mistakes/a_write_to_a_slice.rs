// The legal twin of the mistake of this name.
use proverbs::prelude::*;

fn write(
    qp: &mut QueuePair<Rc, Rts>,
    buf: Buf,
    at: RemoteSlice<RemoteWrite>,
) -> Result<(), PostError<Buf>> {
    qp.post_send(wr::RdmaWrite::new(buf, at.write()))
}
