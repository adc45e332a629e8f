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

fn extended(list: &mut SendList<'_, Ud, Few, 1>, bufs: Vec<Buf>, to: wr::Destination) {
    list.extend(bufs.into_iter().map(move |buf| wr::Send::new(buf).to(to))).unwrap();
}

fn prepared(qp: &mut QueuePair<Ud, Rts>, buf: Buf, to: wr::Destination) {
    qp.post_prepared(&mut wr::Send::new(wr::Placeholder).to(to).prepare(), buf).unwrap();
}

fn prepared_unsignaled(qp: &mut QueuePair<Ud, Rts, Few>, buf: Buf, to: wr::Destination) {
    let _ = qp.post_prepared_unsignaled(&mut wr::Send::new(wr::Placeholder).to(to).prepare(), buf);
}

fn prepared_inline(qp: &mut QueuePair<Ud, Rts>, to: wr::Destination) {
    qp.post_prepared_inline(&mut wr::Send::inline(b"beat").to(to).prepare()).unwrap();
}
