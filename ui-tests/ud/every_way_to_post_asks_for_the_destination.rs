// Proves R1.2, R5.1, ibv_post_send(3): every way to post asks for the destination.
// Enforced by `Addressed<T>`.
use proverbs::post::SendList;
use proverbs::prelude::*;

profile! { Few { signaling: Selective } }

fn unsignaled(qp: &mut QueuePair<Ud, Rts, Few>, buf: Buf) {
    let _ = qp.post_send_unsignaled(wr::Send::new(buf));
}

fn pushed(list: &mut SendList<'_, Ud, Few, 1>, buf: Buf) {
    list.push(wr::Send::new(buf)).unwrap();
}

fn extended(list: &mut SendList<'_, Ud, Few, 1>, bufs: Vec<Buf>) {
    list.extend(bufs.into_iter().map(|buf| wr::Send::new(buf))).unwrap();
}

fn prepared(qp: &mut QueuePair<Ud, Rts>, buf: Buf) {
    qp.post_prepared(&mut wr::Send::new(wr::Placeholder).prepare(), buf).unwrap();
}

fn prepared_unsignaled(qp: &mut QueuePair<Ud, Rts, Few>, buf: Buf) {
    let _ = qp.post_prepared_unsignaled(&mut wr::Send::new(wr::Placeholder).prepare(), buf);
}

fn prepared_inline(qp: &mut QueuePair<Ud, Rts>) {
    qp.post_prepared_inline(&mut wr::Send::inline(b"beat").prepare()).unwrap();
}

fn main() {}
