// R1.1, R1.2, R2.1, R2.4, R4.6, ibv_post_send(3): the legal twin of the test of this name.
use proverbs::memory::Raw;
use proverbs::prelude::*;

profile! { Mine { entry: Raw, signaling: Selective } }

type Data<'a> = wr::Sge<'a, 1>;

unsafe fn opcode(qp: &mut QueuePair<Rc, Rts, Mine>, sge: Data<'_>, at: RemoteCell) {
    // SAFETY: never called.
    let _ = unsafe { qp.post_send_unchecked(wr::FetchAndAdd::new(sge, at, 1)) };
}

unsafe fn address(qp: &mut QueuePair<Ud, Rts, Mine>, sge: Data<'_>, to: wr::Destination) {
    // SAFETY: never called.
    let _ = unsafe { qp.post_send_unchecked(wr::Send::new(sge).to(to)) };
}

unsafe fn flags(qp: &mut QueuePair<Rc, Rts, Mine>, sge: Data<'_>, again: Data<'_>) {
    // SAFETY: never called.
    let _ = unsafe { qp.post_send_unchecked(wr::Send::new(sge).fence()) };
    // SAFETY: never called.
    let _ = unsafe { qp.post_send_unchecked(wr::Send::new(again).signaled()) };
}
