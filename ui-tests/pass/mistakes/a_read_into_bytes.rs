// The legal twin of the mistake of this name.
use proverbs::prelude::*;

fn read(
    qp: &mut QueuePair<Rc, Rts>,
    buf: Buf,
    at: RemoteSlice<RemoteRead>,
) -> Result<(), PostError<Buf>> {
    qp.post_send(wr::RdmaRead::new(buf, at.read()))
}
