// A mistake: the program reads into bytes that are not registered.
use proverbs::prelude::*;

fn read(qp: &mut QueuePair<Rc, Rts>, at: RemoteSlice<RemoteRead>) -> Result<(), PostError<Buf>> {
    let mut bytes = [0; 8];
    qp.post_send(wr::RdmaRead::new(&mut bytes, at.read()))
}

fn main() {}
