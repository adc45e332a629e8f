// R3.1, R7.1, ibv_post_recv(3): the legal twin of the test of this name.
use proverbs::{memory::Raw, prelude::*};

profile! { Mine { entry: Raw, max_send_sge: 2, max_recv_sge: 2 } }

unsafe fn send(qp: &mut QueuePair<Rc, Rts, Mine>, sges: wr::Sge<'_, 2>) {
    // SAFETY: never called.
    let _ = unsafe { qp.post_send_unchecked(wr::Send::new(sges)) };
}

unsafe fn list(qp: &mut QueuePair<Rc, Rts, Mine>, sges: wr::Sge<'_, 2>) {
    let mut slots = SendSlots::<1, 2>::new();
    // SAFETY: never called.
    let _ = unsafe { qp.post_send_list_unchecked(&mut slots, 1, |_| wr::Send::new(sges)) };
}

unsafe fn recv(qp: &mut QueuePair<Rc, Rts, Mine>, sges: wr::Sge<'_, 2>) {
    // SAFETY: never called.
    let _ = unsafe { qp.post_recv_unchecked(wr::Recv::new(sges)) };
}
