// Proves R4.6, ibv_post_send(3): no cmp and swp without reads.
// Enforced by `IssuedBy<I>`.
use proverbs::prelude::*;

profile! { Quiet { initiator: NoReads } }

fn method(qp: &mut QueuePair<Rc, Rts, Quiet>, buf: Buf, cell: RemoteCell) {
    qp.post_send(wr::CmpAndSwp::new(buf, cell, wr::CompareSwap { compare: 0, swap: 1 })).unwrap();
}

fn in_a_list(qp: &mut QueuePair<Rc, Rts, Quiet>, buf: Buf, cell: RemoteCell) {
    post_send!(qp, [wr::CmpAndSwp::new(buf, cell, wr::CompareSwap { compare: 0, swap: 1 })])
        .unwrap();
}

fn main() {}
