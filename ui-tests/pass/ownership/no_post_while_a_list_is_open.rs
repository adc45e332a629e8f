// R9.1, ibv_post_send(3): the legal twin of the test of this name.
use proverbs::prelude::*;

fn between(qp: &mut QueuePair<Rc, Rts>, slots: &mut SendSlots<4>, buf: Buf) {
    let list = qp.send_list(slots);
    list.post().unwrap();
    qp.post_send(wr::Send::new(buf)).unwrap();
}
