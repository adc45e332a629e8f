// Proves R8.19, R8.20, R16.7, ibv_post_send(3): no send before rts.
// Enforced by `CanPostSend`.
use proverbs::prelude::*;

fn reset(qp: &mut QueuePair<Rc, Reset>, buf: Buf) {
    qp.post_send(wr::Send::new(buf)).unwrap();
}

fn init(qp: &mut QueuePair<Rc, Init>, buf: Buf) {
    qp.post_send(wr::Send::new(buf)).unwrap();
}

fn rtr(qp: &mut QueuePair<Rc, Rtr>, buf: Buf) {
    qp.post_send(wr::Send::new(buf)).unwrap();
}

fn in_a_list(qp: &mut QueuePair<Rc, Rtr>, buf: Buf) {
    post_send!(qp, [wr::Send::new(buf)]).unwrap();
}

fn in_a_run_time_list(qp: &mut QueuePair<Rc, Rtr>, slots: &mut SendSlots<4>) {
    qp.send_list(slots);
}

profile! { Ring { signaling: Selective } }
fn unsignaled(qp: &mut QueuePair<Rc, Rtr, Ring>, buf: Buf) {
    let _ = qp.post_send_unsignaled(wr::Send::new(buf)).unwrap();
}

fn prepared_unsignaled(qp: &mut QueuePair<Rc, Rtr, Ring>, buf: Buf) {
    let _ = qp.post_prepared_unsignaled(&mut wr::Send::new(wr::Placeholder).prepare(), buf).unwrap();
}

fn prepared_inline(qp: &mut QueuePair<Rc, Rtr>) {
    qp.post_prepared_inline(&mut wr::Send::inline(b"beat").prepare()).unwrap();
}

fn both_lists(qp: &mut QueuePair<Rc, Rtr>, sends: &mut SendSlots<4>, receives: &mut RecvSlots<4>) {
    qp.lists(sends, receives);
}

fn main() {}
