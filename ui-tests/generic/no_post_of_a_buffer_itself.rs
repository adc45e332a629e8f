// Proves R7.10, ibv_post_send(3), ibv_post_recv(3): what is posted is a work request of the queue's kind.
// Enforced by `SendOn` and `RecvOn`.
use proverbs::prelude::*;

fn caller(qp: &mut QueuePair<Rc, Rts>, buf: Buf) {
    qp.post_send(buf).unwrap();
    qp.post_recv(wr::Send::inline(b"8 bytes!")).unwrap();
}

fn main() {}
