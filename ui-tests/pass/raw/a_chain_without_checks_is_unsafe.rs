// Twin of raw/a_chain_without_checks_is_unsafe.rs.
use proverbs::memory::Raw;
use proverbs::prelude::*;

profile! { Mine { entry: Raw } }

unsafe fn unbooked(qp: &mut QueuePair<Rc, Rts, Mine>, sge: wr::Sge<'_, 1>) {
    // SAFETY: the caller promises it.
    let _ = unsafe { post_send!(qp, [wr::Send::new(sge)], unchecked) };
}

fn booked(qp: &mut QueuePair<Rc, Rts>, buf: Buf) {
    let _ = post_send!(qp, [wr::Send::new(buf)]);
}

fn main() {}
