// R1.1, ibv_post_send(3): the legal twin of the test of this name.
use proverbs::ext::windows::{MemoryWindow, Windowed};
use proverbs::prelude::*;

profile! { Any { entry: AnyBuf } }

fn bind(
    qp: &mut QueuePair<Rc, Rts, Any>,
    window: MemoryWindow,
    region: &MemoryRegion<Windowed<LocalWrite>>,
) {
    qp.post_send(ext::windows::BindMw::<RemoteWrite>::new(window, region, 0..64).unwrap()).unwrap();
}

pub fn main() {
    let _ = bind;
}
