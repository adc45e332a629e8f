// R2.1, ibv_post_send(3): every way to post asks for the fence.
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

fn main() {}
