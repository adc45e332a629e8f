// Proves R26.3, ibv_create_qp_ex(3): a target posts nothing.
// Enforced by there being no such call.
use proverbs::prelude::*;
use proverbs::ext::xrc::XrcTarget;

fn sent(target: &mut XrcTarget<Rts>) {
    target.post_send(wr::Send::inline(b"hello")).unwrap();
}

fn received(target: &mut XrcTarget<Rts>, buf: Buf) {
    target.post_recv(wr::Recv::new(buf)).unwrap();
}

fn main() {}
