// R8.19, ibv_post_send(3): the legal twin of the test of this name.
use proverbs::prelude::*;

fn rts(qp: &mut QueuePair<Rc, Rts>, buf: Buf) {
    qp.post_send(wr::Send::new(buf)).unwrap();
}

fn sqd(qp: &mut QueuePair<Rc, Sqd>, buf: Buf) {
    qp.post_send(wr::Send::new(buf)).unwrap();
}

fn error(qp: &mut QueuePair<Rc, state::Err>, buf: Buf) {
    qp.post_send(wr::Send::new(buf)).unwrap();
}

fn in_a_list(qp: &mut QueuePair<Rc, Rts>, buf: Buf) {
    post_send!(qp, [wr::Send::new(buf)]).unwrap();
}

fn in_a_run_time_list(qp: &mut QueuePair<Rc, Rts>, slots: &mut SendSlots<4>) {
    qp.send_list(slots);
}

profile! { Ring { signaling: Selective } }

fn unsignaled(qp: &mut QueuePair<Rc, Rts, Ring>, buf: Buf) {
    let _ = qp.post_send_unsignaled(wr::Send::new(buf)).unwrap();
}

fn prepared_unsignaled(qp: &mut QueuePair<Rc, Rts, Ring>, buf: Buf) {
    let _ =
        qp.post_prepared_unsignaled(&mut wr::Send::new(wr::Placeholder).prepare(), buf).unwrap();
}

fn prepared_inline(qp: &mut QueuePair<Rc, Rts>) {
    qp.post_prepared_inline(&mut wr::Send::inline(b"beat").prepare()).unwrap();
}

fn both_lists(qp: &mut QueuePair<Rc, Rts>, sends: &mut SendSlots<4>, receives: &mut RecvSlots<4>) {
    qp.lists(sends, receives);
}
