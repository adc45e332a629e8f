// R1.1, R1.2, R2.1, R2.4, R4.6, ibv_post_send(3): the legal twin of the test of this name.
use proverbs::memory::Raw;
use proverbs::prelude::*;

profile! { Mine { entry: Raw, signaling: Selective } }

type Qp<T> = QueuePair<T, Rts, Mine>;
type Data<'a> = wr::Sge<'a, 1>;
type Slots<'a> = &'a mut SendSlots<2>;

unsafe fn opcode(qp: &mut Qp<Rc>, slots: Slots<'_>, sge: Data<'_>, at: RemoteCell) {
    // SAFETY: never called.
    let _ = unsafe { qp.post_send_list_unchecked(slots, 2, |_| wr::FetchAndAdd::new(sge, at, 1)) };
}

unsafe fn address(qp: &mut Qp<Ud>, slots: Slots<'_>, sge: Data<'_>, to: wr::Destination) {
    // SAFETY: never called.
    let _ = unsafe { qp.post_send_list_unchecked(slots, 2, |_| wr::Send::new(sge).to(to)) };
}

unsafe fn flags(qp: &mut Qp<Rc>, slots: Slots<'_>, sge: Data<'_>) {
    // SAFETY: never called.
    let _ = unsafe { qp.post_send_list_unchecked(slots, 2, |_| wr::Send::new(sge).fence()) };
    // SAFETY: never called.
    let _ = unsafe { qp.post_send_list_unchecked(slots, 2, |_| wr::Send::new(sge).signaled()) };
}
