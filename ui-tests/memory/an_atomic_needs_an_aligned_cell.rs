// R4.2, ibv_post_send(3): an atomic needs an aligned cell.
// Enforced by `AtomicAddr`.
use proverbs::*;

fn method(qp: &mut QueuePair<Rc, Rts>, buf: Buf, peer: RemoteSlice<RemoteAll>) {
    qp.post_send(FetchAndAdd::new(buf, peer.write(), 1)).unwrap();
}

fn in_a_list(qp: &mut QueuePair<Rc, Rts>, buf: Buf, peer: RemoteSlice<RemoteAll>) {
    post_send!(qp, [FetchAndAdd::new(buf, peer.write(), 1)]).unwrap();
}

fn main() {}
