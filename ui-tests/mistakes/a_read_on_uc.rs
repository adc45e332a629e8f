// A mistake: the program reads from the peer on a transport that has no reads.
use proverbs::prelude::*;

fn read(qp: &mut QueuePair<Uc, Rts>, buf: Buf, at: RemoteSlice<RemoteRead>) {
    qp.post_send(wr::RdmaRead::new(buf, at.read())).unwrap();
}

fn main() {}
