// R19.2, ibv_post_send(3): the legal twin of the test of this name.
use proverbs::ext::windows::{BoundWindow, MemoryWindow, Windowed};
use proverbs::prelude::*;

profile! { All { entry: AnyBuf } }

fn bind(
    qp: &mut QueuePair<Rc, Rts, All>,
    window: MemoryWindow,
    region: &MemoryRegion<Windowed<LocalWrite>>,
) {
    qp.post_send(ext::windows::BindMw::<RemoteWrite>::new(window, region, 0..64).unwrap()).unwrap();
}

fn end(qp: &mut QueuePair<Rc, Rts, All>, window: BoundWindow<RemoteWrite>) {
    qp.post_send(ext::windows::LocalInv::new(window).fence()).unwrap();
}

fn in_a_list(qp: &mut QueuePair<Rc, Rts, All>, windows: [BoundWindow<RemoteWrite>; 3]) {
    let [one, two, three] = windows;
    let mut slots = SendSlots::<2>::new();
    let mut list = qp.send_list(&mut slots);
    list.push(ext::windows::LocalInv::new(one)).unwrap();
    list.extend([ext::windows::LocalInv::new(two)]).unwrap();
    list.post().unwrap();
    post_send!(qp, [ext::windows::LocalInv::new(three)]).unwrap();
}

pub fn main() {
    let _ = (bind, end, in_a_list);
}
