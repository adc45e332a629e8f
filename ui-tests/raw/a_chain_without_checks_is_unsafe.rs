// Proves R11.1, ibv_post_send(3): a chain without bookkeeping is the caller's promise, and a queue
// pair with bookkeeping has none. Enforced by `unsafe`, `Raw`.
use proverbs::memory::Raw;
use proverbs::prelude::*;

profile! { Mine { entry: Raw } }

fn safe(qp: &mut QueuePair<Rc, Rts, Mine>, sge: wr::Sge<'_, 1>) {
    let _ = post_send!(qp, [wr::Send::new(sge)], unchecked);
}

unsafe fn booked(qp: &mut QueuePair<Rc, Rts>, buf: Buf) {
    // SAFETY: never called.
    let _ = unsafe { post_send!(qp, [wr::Send::new(buf)], unchecked) };
}

fn main() {}
