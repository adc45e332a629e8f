// The legal twin of the mistake of this name.
use proverbs::prelude::*;

fn read(qp: &mut QueuePair<Rc, Rts>, buf: Buf, at: RemoteSlice<RemoteRead>) {
    qp.post_send(wr::RdmaRead::new(buf, at.read())).unwrap();
}
