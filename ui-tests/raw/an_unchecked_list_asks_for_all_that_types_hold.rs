// Proves R1.1, R1.2, R2.1, R2.4, R4.6, ibv_post_send(3): the caller is responsible only for buffers and order.
// Enforced by `PostOn<T>`, `Addressed<T>`, `FenceOn<T>`, `SignaledOn<M>`, `IssuedBy<I>`.
use proverbs::memory::Raw;
use proverbs::prelude::*;

profile! { Mine { entry: Raw, initiator: NoReads } }

type Qp<T> = QueuePair<T, Rts, Mine>;
type Data<'a> = wr::Sge<'a, 1>;
type Slots<'a> = &'a mut SendSlots<2>;

unsafe fn opcode(qp: &mut Qp<Uc>, slots: Slots<'_>, sge: Data<'_>, at: RemoteCell) {
    // SAFETY: never called.
    let _ = unsafe { qp.post_send_list_unchecked(slots, 2, |_| wr::FetchAndAdd::new(sge, at, 1)) };
}

unsafe fn address(qp: &mut Qp<Ud>, slots: Slots<'_>, sge: Data<'_>) {
    // SAFETY: never called.
    let _ = unsafe { qp.post_send_list_unchecked(slots, 2, |_| wr::Send::new(sge)) };
}

unsafe fn flags(qp: &mut Qp<Uc>, slots: Slots<'_>, sge: Data<'_>) {
    // SAFETY: never called.
    let _ = unsafe { qp.post_send_list_unchecked(slots, 2, |_| wr::Send::new(sge).fence()) };
    // SAFETY: never called.
    let _ = unsafe { qp.post_send_list_unchecked(slots, 2, |_| wr::Send::new(sge).signaled()) };
}

fn main() {}
