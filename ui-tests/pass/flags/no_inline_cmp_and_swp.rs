// R2.6, ibv_post_send(3): the legal twin of ui-tests/flags/no_inline_cmp_and_swp.rs.
use proverbs::*;

fn method(qp: &mut QueuePair<Rc, Rts>, buf: Buf, cell: RemoteCell) {
    qp.post_send(CmpAndSwp::new(buf, cell, CompareSwap { compare: 0, swap: 1 })).unwrap();
}

fn in_a_list(qp: &mut QueuePair<Rc, Rts>, buf: Buf, cell: RemoteCell) {
    post_send!(qp, [CmpAndSwp::new(buf, cell, CompareSwap { compare: 0, swap: 1 })]).unwrap();
}
