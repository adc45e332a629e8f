// R19.2, ibv_post_send(3): the legal twin of ui-tests/memory/a_bind_needs_an_entry_for_its_window.rs.
use proverbs::memory::BoundWindow;
use proverbs::prelude::*;

profile! { Any { entry: AnyBuf } }

fn end(qp: &mut QueuePair<Rc, Rts, Any>, window: BoundWindow<RemoteWrite>) {
    qp.post_send(wr::LocalInv::new(window)).unwrap();
}

pub fn main() {
    let _ = end;
}
