// Proves R4.2, ibv_post_send(3): an atomic needs an aligned cell.
// Enforced by `AtomicAddr`.
use proverbs::prelude::*;

fn method(qp: &mut QueuePair<Rc, Rts>, buf: Buf, peer: RemoteSlice<RemoteAll>) {
    qp.post_send(wr::FetchAndAdd::new(buf, peer.write(), 1)).unwrap();
}

fn in_a_list(qp: &mut QueuePair<Rc, Rts>, buf: Buf, peer: RemoteSlice<RemoteAll>) {
    post_send!(qp, [wr::FetchAndAdd::new(buf, peer.write(), 1)]).unwrap();
}

fn main() {}
