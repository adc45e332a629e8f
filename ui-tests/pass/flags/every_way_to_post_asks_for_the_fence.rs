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
