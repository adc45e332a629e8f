// Proves R9.1, R17.3, ibv_post_send(3): no post while a list is open.
// Enforced by the borrow of `SendList`.
use proverbs::prelude::*;

fn between(qp: &mut QueuePair<Rc, Rts>, slots: &mut SendSlots<4>, buf: Buf) {
    let list = qp.send_list(slots);
    qp.post_send(wr::Send::new(buf)).unwrap();
    list.post().unwrap();
}

fn main() {}
