// R9.1, ibv_post_send(3): the legal twin of ui-tests/ownership/no_post_while_a_list_is_open.rs.
use proverbs::prelude::*;

fn between(qp: &mut QueuePair<Rc, Rts>, slots: &mut SendSlots<4>, buf: Buf) {
    let list = qp.send_list(slots);
    list.post().unwrap();
    qp.post_send(wr::Send::new(buf)).unwrap();
}
