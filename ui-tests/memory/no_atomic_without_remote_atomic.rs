// Proves R4.3, ibv_reg_mr(3): no atomic without remote atomic.
// Enforced by `GrantsAtomic`.
use proverbs::prelude::*;

fn method(qp: &mut QueuePair<Rc, Rts>, buf: Buf, peer: RemoteSlice<RemoteReadWrite>) {
    qp.post_send(wr::FetchAndAdd::new(buf, peer.atomic(0).unwrap(), 1)).unwrap();
}

fn in_a_list(qp: &mut QueuePair<Rc, Rts>, buf: Buf, peer: RemoteSlice<RemoteReadWrite>) {
    post_send!(qp, [wr::FetchAndAdd::new(buf, peer.atomic(0).unwrap(), 1)]).unwrap();
}

fn main() {}
