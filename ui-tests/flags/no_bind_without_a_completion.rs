// Proves R19.2, ibv_post_send(3): the completion of a bind says what became of its window.
// Enforced by `SignaledOn` and `MayBeSignaled`.
use proverbs::memory::{BoundWindow, MemoryWindow, Windowed};
use proverbs::prelude::*;

profile! { Ring { signaling: Selective, entry: AnyBuf } }

fn bind(
    qp: &mut QueuePair<Rc, Rts, Ring>,
    window: MemoryWindow,
    region: &MemoryRegion<Windowed<LocalWrite>>,
) {
    qp.post_send(wr::BindMw::<RemoteWrite>::new(window, region, 0..64).unwrap()).unwrap();
}

fn end(qp: &mut QueuePair<Rc, Rts, Ring>, window: BoundWindow<RemoteWrite>) {
    qp.post_send(wr::LocalInv::new(window)).unwrap();
}

fn signaled(qp: &mut QueuePair<Rc, Rts, Ring>, window: BoundWindow<RemoteWrite>) {
    qp.post_send(wr::LocalInv::new(window).signaled()).unwrap();
}

fn main() {}
