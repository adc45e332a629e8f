// R2.4, ibv_post_send(3): the legal twin of the test of this name.
use proverbs::post::SendList;
use proverbs::prelude::*;

profile! { Few { signaling: Selective } }

fn pushed(list: &mut SendList<'_, Rc, Few, 1>, buf: Buf) {
    list.push(wr::Send::new(buf).signaled()).unwrap();
}

fn extended(list: &mut SendList<'_, Rc, Few, 1>, bufs: Vec<Buf>) {
    list.extend(bufs.into_iter().map(|buf| wr::Send::new(buf).signaled())).unwrap();
}
