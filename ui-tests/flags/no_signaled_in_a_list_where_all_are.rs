// Proves R2.4, ibv_post_send(3): no signaled in a list where all are.
// Enforced by `SignaledOn<M>`.
use proverbs::post::SendList;
use proverbs::prelude::*;

fn pushed(list: &mut SendList<'_, Rc, DefaultProfile, 1>, buf: Buf) {
    list.push(wr::Send::new(buf).signaled()).unwrap();
}

fn extended(list: &mut SendList<'_, Rc, DefaultProfile, 1>, bufs: Vec<Buf>) {
    list.extend(bufs.into_iter().map(|buf| wr::Send::new(buf).signaled())).unwrap();
}

fn main() {}
