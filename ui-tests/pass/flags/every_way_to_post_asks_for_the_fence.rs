// R2.1, ibv_post_send(3): the legal twin of the test of this name.
use proverbs::post::SendList;
use proverbs::prelude::*;

profile! { Few { signaling: Selective } }

fn unsignaled(qp: &mut QueuePair<Rc, Rts, Few>, buf: Buf) {
    let _ = qp.post_send_unsignaled(wr::Send::new(buf).fence());
}

fn pushed(list: &mut SendList<'_, Rc, DefaultProfile, 1>, buf: Buf) {
    list.push(wr::Send::new(buf).fence()).unwrap();
}

fn extended(list: &mut SendList<'_, Rc, DefaultProfile, 1>, bufs: Vec<Buf>) {
    list.extend(bufs.into_iter().map(|buf| wr::Send::new(buf).fence())).unwrap();
}

fn prepared(qp: &mut QueuePair<Rc, Rts>, buf: Buf) {
    qp.post_prepared(&mut wr::Send::new(wr::Placeholder).fence().prepare(), buf).unwrap();
}

fn prepared_unsignaled(qp: &mut QueuePair<Rc, Rts, Few>, buf: Buf) {
    let _ = qp.post_prepared_unsignaled(&mut wr::Send::new(wr::Placeholder).fence().prepare(), buf);
}

fn prepared_inline(qp: &mut QueuePair<Rc, Rts>) {
    qp.post_prepared_inline(&mut wr::Send::inline(b"beat").fence().prepare()).unwrap();
}
