// R19.2, ibv_post_send(3): the legal twin of the test of this name.
use proverbs::ext::windows::BoundWindow;
use proverbs::prelude::*;

profile! { Any { entry: AnyBuf } }

fn end(qp: &mut QueuePair<Rc, Rts, Any>, window: BoundWindow<RemoteWrite>) {
    qp.post_send(ext::windows::LocalInv::new(window)).unwrap();
}

pub fn main() {
    let _ = end;
}
