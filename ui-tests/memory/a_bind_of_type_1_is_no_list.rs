// Proves R19.8: a separate verb binds a window of type 1, on RC, and its bind is signaled.
// Enforced by `bind_mw`, which takes `MwBind` where `BindMw: PostOn<T>`, and by `SignaledOn`.
use proverbs::ext::windows::{Type1Window, Windowed};
use proverbs::prelude::*;

profile! { Any { entry: AnyBuf } }
profile! { Ring { signaling: Selective, entry: AnyBuf } }

type Open = MemoryRegion<Windowed<LocalWrite>>;

fn posted(qp: &mut QueuePair<Rc, Rts, Any>, window: Type1Window, region: &Open) {
    qp.post_send(ext::windows::MwBind::<RemoteWrite>::new(window, region, 0..64).unwrap()).unwrap();
}

fn on_uc(qp: &mut QueuePair<Uc, Rts, Any>, window: Type1Window, region: &Open) {
    qp.bind_mw(ext::windows::MwBind::<RemoteWrite>::new(window, region, 0..64).unwrap()).unwrap();
}

fn too_early(qp: &mut QueuePair<Rc, Rtr, Any>, window: Type1Window, region: &Open) {
    qp.bind_mw(ext::windows::MwBind::<RemoteWrite>::new(window, region, 0..64).unwrap()).unwrap();
}

fn unsignaled(qp: &mut QueuePair<Rc, Rts, Ring>, window: Type1Window, region: &Open) {
    qp.bind_mw(ext::windows::MwBind::<RemoteWrite>::new(window, region, 0..64).unwrap()).unwrap();
}

fn without_its_entry(qp: &mut QueuePair<Rc, Rts>, window: Type1Window, region: &Open) {
    qp.bind_mw(ext::windows::MwBind::<RemoteWrite>::new(window, region, 0..64).unwrap()).unwrap();
}

fn main() {}
