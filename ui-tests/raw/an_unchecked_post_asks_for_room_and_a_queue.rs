// Proves R3.1, R7.1, ibv_post_recv(3): without bookkeeping too, elements have room and receives a
// queue. Enforced by `Sges<N>`, `HasRecvQueue`.
use proverbs::{memory::Raw, prelude::*};

profile! { Mine { entry: Raw, max_send_sge: 2, max_recv_sge: 2 } }
profile! { Shared { entry: Raw, receive: SharedRq } }

unsafe fn send(qp: &mut QueuePair<Rc, Rts, Mine>, sges: wr::Sge<'_, 3>) {
    // SAFETY: never called.
    let _ = unsafe { qp.post_send_unchecked(wr::Send::new(sges)) };
}

unsafe fn list(qp: &mut QueuePair<Rc, Rts, Mine>, sges: wr::Sge<'_, 3>, sge: wr::Sge<'_, 2>) {
    let mut slots = SendSlots::<1, 3>::new();
    let _ = unsafe { qp.post_send_list_unchecked(&mut slots, 1, |_| wr::Send::new(sges)) };
    let mut slots = SendSlots::<1>::new();
    let _ = unsafe { qp.post_send_list_unchecked(&mut slots, 1, |_| wr::Send::new(sge)) };
}

unsafe fn recv(qp: &mut QueuePair<Rc, Rts, Mine>, sges: wr::Sge<'_, 3>) {
    // SAFETY: never called.
    let _ = unsafe { qp.post_recv_unchecked(wr::Recv::new(sges)) };
}

unsafe fn queue(qp: &mut QueuePair<Rc, Rts, Shared>, sge: wr::Sge<'_, 1>) {
    // SAFETY: never called.
    let _ = unsafe { qp.post_recv_unchecked(wr::Recv::new(sge)) };
}

fn main() {}
