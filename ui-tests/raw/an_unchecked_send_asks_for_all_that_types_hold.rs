// Proves R1.1, R1.2, R2.1, R2.4, R4.6, ibv_post_send(3): the caller is responsible only for buffers and order.
// Enforced by `PostOn<T>`, `Addressed<T>`, `FenceOn<T>`, `SignaledOn<M>`, `IssuedBy<I>`.
use proverbs::memory::Raw;
use proverbs::prelude::*;

profile! { Mine { entry: Raw, initiator: NoReads } }

type Data<'a> = wr::Sge<'a, 1>;

unsafe fn opcode(qp: &mut QueuePair<Uc, Rts, Mine>, sge: Data<'_>, at: RemoteCell) {
    // SAFETY: never called.
    let _ = unsafe { qp.post_send_unchecked(wr::FetchAndAdd::new(sge, at, 1)) };
}

unsafe fn reads(qp: &mut QueuePair<Rc, Rts, Mine>, sge: Data<'_>, at: RemoteCell) {
    // SAFETY: never called.
    let _ = unsafe { qp.post_send_unchecked(wr::FetchAndAdd::new(sge, at, 1)) };
}

unsafe fn address(qp: &mut QueuePair<Ud, Rts, Mine>, sge: Data<'_>) {
    // SAFETY: never called.
    let _ = unsafe { qp.post_send_unchecked(wr::Send::new(sge)) };
}

unsafe fn flags(qp: &mut QueuePair<Uc, Rts, Mine>, sge: Data<'_>) {
    // SAFETY: never called.
    let _ = unsafe { qp.post_send_unchecked(wr::Send::new(sge).fence().signaled()) };
}

fn main() {}
