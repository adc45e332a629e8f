// Proves R2.7, R2.10, R19.1, ibv_post_send(3): what is prepared without data is posted with some.
// Enforced by `Data<E>`, `Fits<M, I>` and `Repeats`.
use proverbs::ext::windows::Revocable;
use proverbs::prelude::*;

fn without_a_buffer(qp: &mut QueuePair<Rc, Rts>) {
    qp.post_send(wr::Send::new(wr::Placeholder)).unwrap();
}

fn too_long(qp: &mut QueuePair<Rc, Rts>) {
    let mut send = wr::Send::inline(&[0; 100]).prepare();
    qp.post_prepared_inline(&mut send).unwrap();
}

fn a_key_is_ended_once(lent: Revocable<RemoteWrite>, again: Revocable<RemoteWrite>) {
    let _ = ext::windows::SendWithInv::inline(b"done", lent).prepare();
    let _ = ext::windows::SendWithInv::new(wr::Placeholder, again).prepare();
}

fn main() {}
