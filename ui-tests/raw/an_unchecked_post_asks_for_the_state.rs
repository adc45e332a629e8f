// Proves R7.14, R8.19, ibv_post_send(3): the caller does the bookkeeping, and the types keep the
// state. Enforced by `CanPostSend`, `CanPostRecv`.
use proverbs::memory::Raw;
use proverbs::prelude::*;

profile! { Mine { entry: Raw } }

unsafe fn send(qp: &mut QueuePair<Rc, Rtr, Mine>, sge: wr::Sge<'_, 1>) {
    // SAFETY: never called.
    let _ = unsafe { qp.post_send_unchecked(wr::Send::new(sge)) };
}

unsafe fn list(qp: &mut QueuePair<Rc, Rtr, Mine>, sge: wr::Sge<'_, 1>) {
    let mut slots = SendSlots::<1>::new();
    // SAFETY: never called.
    let _ = unsafe { qp.post_send_list_unchecked(&mut slots, 1, |_| wr::Send::new(sge)) };
}

unsafe fn recv(qp: &mut QueuePair<Rc, Reset, Mine>, sge: wr::Sge<'_, 1>) {
    // SAFETY: never called.
    let _ = unsafe { qp.post_recv_unchecked(wr::Recv::new(sge)) };
}

fn main() {}
