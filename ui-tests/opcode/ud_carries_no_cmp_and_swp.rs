// R1.1, ibv_post_send(3): ud carries no cmp and swp.
// Enforced by `PostOn<T>`.
use proverbs::*;

fn method(qp: &mut QueuePair<Ud, Rts>, buf: Buf, cell: RemoteCell, to: Destination) {
    qp.post_send(CmpAndSwp::new(buf, cell, CompareSwap { compare: 0, swap: 1 }).to(to)).unwrap();
}

fn in_a_list(qp: &mut QueuePair<Ud, Rts>, buf: Buf, cell: RemoteCell, to: Destination) {
    post_send!(qp, [CmpAndSwp::new(buf, cell, CompareSwap { compare: 0, swap: 1 }).to(to)])
        .unwrap();
}

fn main() {}
