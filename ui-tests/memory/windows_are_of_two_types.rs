// Proves R19.8, ibv_bind_mw(3): each type of memory window has its own verbs.
// Enforced by `Type1`, and by what `BindMw` and `LocalInv` take.
use proverbs::ext::windows::{BoundType1Window, MemoryWindow, Type1Window, WindowEntry, Windowed};
use proverbs::prelude::*;

type Open = MemoryRegion<Windowed<LocalWrite>>;

fn of_type_2_by_the_verb(window: MemoryWindow, region: &Open) {
    let _ = ext::windows::MwBind::<RemoteWrite>::new(window, region, 0..64);
}

fn of_type_1_by_a_work_request(window: Type1Window, region: &Open) {
    let _ = ext::windows::BindMw::<RemoteWrite>::new(window, region, 0..64);
}

fn its_key_is_not_invalidated(window: BoundType1Window<RemoteWrite>) {
    let _ = ext::windows::LocalInv::new(window);
}

fn its_key_is_not_known_before(window: Type1Window, region: &Open) {
    let _ = ext::windows::MwBind::<RemoteWrite>::new(window, region, 0..64).unwrap().remote();
}

fn what_became_of_it_is_not_known(window: WindowEntry, region: &Open) {
    let _ = ext::windows::MwBind::<RemoteWrite>::new(window, region, 0..64);
}

fn main() {}
