// Proves R1.1, R1.7, ibv_post_send(3): uc carries no bind mw.
// Enforced by `PostOn<T>`.
use proverbs::ext::windows::{MemoryWindow, Windowed};
use proverbs::prelude::*;

profile! { Any { entry: AnyBuf } }

fn bind(
    qp: &mut QueuePair<Uc, Rts, Any>,
    window: MemoryWindow,
    region: &MemoryRegion<Windowed<LocalWrite>>,
) {
    qp.post_send(ext::windows::BindMw::<RemoteWrite>::new(window, region, 0..64).unwrap()).unwrap();
}

fn main() {}
