// Proves R1.1, ibv_post_send(3): uc carries no send with inv.
// Enforced by `PostOn<T>`.
use proverbs::ext::windows::Revocable;
use proverbs::prelude::*;

fn method(qp: &mut QueuePair<Uc, Rts>, buf: Buf, window: Revocable<RemoteWrite>) {
    qp.post_send(ext::windows::SendWithInv::new(buf, window)).unwrap();
}

fn in_a_list(qp: &mut QueuePair<Uc, Rts>, buf: Buf, window: Revocable<RemoteWrite>) {
    post_send!(qp, [ext::windows::SendWithInv::new(buf, window)]).unwrap();
}

fn main() {}
