// R1.2, R5.1, ibv_post_send(3): the legal twin of the test of this name.
use proverbs::post::SendList;
use proverbs::prelude::*;

profile! { Few { signaling: Selective } }

fn unsignaled(qp: &mut QueuePair<Ud, Rts, Few>, buf: Buf, to: wr::Destination) {
    let _ = qp.post_send_unsignaled(wr::Send::new(buf).to(to));
}

fn pushed(list: &mut SendList<'_, Ud, Few, 1>, buf: Buf, to: wr::Destination) {
    list.push(wr::Send::new(buf).to(to)).unwrap();
}
