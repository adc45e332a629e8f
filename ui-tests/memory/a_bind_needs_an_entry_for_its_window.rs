// Proves R19.2, ibv_post_send(3): the completion of a bind gives its window back.
// Enforced by `Data<E>`.
use proverbs::ext::windows::BoundWindow;
use proverbs::prelude::*;

fn end(qp: &mut QueuePair<Rc, Rts>, window: BoundWindow<RemoteWrite>) {
    qp.post_send(ext::windows::LocalInv::new(window)).unwrap();
}

fn main() {}
