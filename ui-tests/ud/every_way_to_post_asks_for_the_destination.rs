// R1.2, R5.1, ibv_post_send(3): every way to post asks for the destination.
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

fn main() {}
