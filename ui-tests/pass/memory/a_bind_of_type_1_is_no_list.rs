// R19.8, ibv_bind_mw(3): the legal twin of the test of this name.
use proverbs::ext::windows::{Type1Window, Windowed};
use proverbs::prelude::*;

profile! { Any { entry: AnyBuf } }

type Open = MemoryRegion<Windowed<LocalWrite>>;

fn bound(qp: &mut QueuePair<Rc, Rts, Any>, window: Type1Window, region: &Open) {
    qp.bind_mw(ext::windows::MwBind::<RemoteWrite>::new(window, region, 0..64).unwrap()).unwrap();
}

fn fenced(qp: &mut QueuePair<Rc, Rts, Any>, window: Type1Window, region: &Open) {
    let bind = ext::windows::MwBind::<RemoteWrite>::new(window, region, 0..64).unwrap();
    qp.bind_mw(bind.fence()).unwrap();
}

pub fn main() {
    let _ = (bound, fenced);
}
