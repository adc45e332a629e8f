// Proves R19.2, ibv_post_send(3): the completion of a bind returns its window.
// Enforced by `SignaledOn` and `MayBeSignaled`.
use proverbs::ext::windows::{BoundWindow, MemoryWindow, Windowed};
use proverbs::prelude::*;

profile! { Ring { signaling: Selective, entry: AnyBuf } }

fn bind(
    qp: &mut QueuePair<Rc, Rts, Ring>,
    window: MemoryWindow,
    region: &MemoryRegion<Windowed<LocalWrite>>,
) {
    qp.post_send(ext::windows::BindMw::<RemoteWrite>::new(window, region, 0..64).unwrap()).unwrap();
}

fn end(qp: &mut QueuePair<Rc, Rts, Ring>, window: BoundWindow<RemoteWrite>) {
    qp.post_send(ext::windows::LocalInv::new(window)).unwrap();
}

fn signaled(qp: &mut QueuePair<Rc, Rts, Ring>, window: BoundWindow<RemoteWrite>) {
    qp.post_send(ext::windows::LocalInv::new(window).signaled()).unwrap();
}

fn unsignaled_bind(
    qp: &mut QueuePair<Rc, Rts, Ring>,
    window: MemoryWindow,
    region: &MemoryRegion<Windowed<LocalWrite>>,
) {
    let bind = ext::windows::BindMw::<RemoteWrite>::new(window, region, 0..64).unwrap();
    let _later = qp.post_send_unsignaled(bind).unwrap();
}

fn unsignaled_end(qp: &mut QueuePair<Rc, Rts, Ring>, window: BoundWindow<RemoteWrite>) {
    let _later = qp.post_send_unsignaled(ext::windows::LocalInv::new(window)).unwrap();
}

fn in_a_list(qp: &mut QueuePair<Rc, Rts, Ring>, window: BoundWindow<RemoteWrite>) {
    let mut slots = SendSlots::<2>::new();
    qp.send_list(&mut slots).push(ext::windows::LocalInv::new(window)).unwrap();
}

fn in_an_iterator(qp: &mut QueuePair<Rc, Rts, Ring>, window: BoundWindow<RemoteWrite>) {
    let mut slots = SendSlots::<2>::new();
    qp.send_list(&mut slots).extend([ext::windows::LocalInv::new(window)]).unwrap();
}

fn in_a_chain(qp: &mut QueuePair<Rc, Rts, Ring>, window: BoundWindow<RemoteWrite>) {
    post_send!(qp, [ext::windows::LocalInv::new(window)]).unwrap();
}

fn main() {}
