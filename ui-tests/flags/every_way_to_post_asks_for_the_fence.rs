// Proves R2.1, ibv_post_send(3): every way to post asks for the fence.
// Enforced by `FenceOn<T>`.
use proverbs::post::SendList;
use proverbs::prelude::*;

profile! { Few { signaling: Selective } }

fn unsignaled(qp: &mut QueuePair<Uc, Rts, Few>, buf: Buf) {
    let _ = qp.post_send_unsignaled(wr::Send::new(buf).fence());
}

fn pushed(list: &mut SendList<'_, Uc, DefaultProfile, 1>, buf: Buf) {
    list.push(wr::Send::new(buf).fence()).unwrap();
}

fn extended(list: &mut SendList<'_, Uc, DefaultProfile, 1>, bufs: Vec<Buf>) {
    list.extend(bufs.into_iter().map(|buf| wr::Send::new(buf).fence())).unwrap();
}

fn prepared(qp: &mut QueuePair<Uc, Rts>, buf: Buf) {
    qp.post_prepared(&mut wr::Send::new(wr::Placeholder).fence().prepare(), buf).unwrap();
}

fn prepared_unsignaled(qp: &mut QueuePair<Uc, Rts, Few>, buf: Buf) {
    let _ = qp.post_prepared_unsignaled(&mut wr::Send::new(wr::Placeholder).fence().prepare(), buf);
}

fn prepared_inline(qp: &mut QueuePair<Uc, Rts>) {
    qp.post_prepared_inline(&mut wr::Send::inline(b"beat").fence().prepare()).unwrap();
}

fn main() {}
