// A mistake: the program adds to a remote slice instead of a cell of 8 bytes.
use proverbs::prelude::*;

fn count(
    qp: &mut QueuePair<Rc, Rts>,
    buf: Buf,
    at: RemoteSlice<RemoteAll>,
) -> Result<(), PostError<Buf>> {
    qp.post_send(wr::FetchAndAdd::new(buf, at, 1))
}

fn main() {}
