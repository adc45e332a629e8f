// R19.8, ibv_bind_mw(3): the legal twin of the test of this name.
use proverbs::ext::windows::{
    BoundType1Window, BoundWindow, MemoryWindow, Type1Window, WindowEntry, Windowed,
};
use proverbs::prelude::*;

type Open = MemoryRegion<Windowed<LocalWrite>>;

fn of_type_1_by_the_verb(window: Type1Window, region: &Open) {
    let _ = ext::windows::MwBind::<RemoteWrite>::new(window, region, 0..64);
}

fn of_type_2_by_a_work_request(window: MemoryWindow, region: &Open) {
    let _ = ext::windows::BindMw::<RemoteWrite>::new(window, region, 0..64);
}

fn the_key_of_type_2_is_invalidated(window: BoundWindow<RemoteWrite>) {
    let _ = ext::windows::LocalInv::new(window);
}

fn that_of_type_1_by_a_bind(window: BoundType1Window<RemoteWrite>) {
    let _ = ext::windows::MwBind::unbind(window);
}

fn its_key_is_known_then(entry: WindowEntry) -> Option<RemoteSlice<RemoteWrite>> {
    Some(entry.into_bound_type1().ok()?.remote())
}

pub fn main() {
    let _ = (of_type_1_by_the_verb, of_type_2_by_a_work_request);
    let _ = (the_key_of_type_2_is_invalidated, that_of_type_1_by_a_bind, its_key_is_known_then);
}
