// A mistake: the program writes to a remote slice without saying that it is written.
use proverbs::prelude::*;

fn write(
    qp: &mut QueuePair<Rc, Rts>,
    buf: Buf,
    at: RemoteSlice<RemoteWrite>,
) -> Result<(), PostError<Buf>> {
    qp.post_send(wr::RdmaWrite::new(buf, at))
}

fn main() {}
