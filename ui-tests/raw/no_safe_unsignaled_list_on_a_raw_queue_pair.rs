// Proves R11.1: without bookkeeping only `unsafe` posts, unsignaled lists too (`Owned`).
// Enforced by `Owned`.
use proverbs::memory::Raw;
use proverbs::prelude::*;

profile! { Unbooked { signaling: Selective, entry: Raw } }

fn list(qp: &mut QueuePair<Rc, Rts, Unbooked>, data: wr::Sge<'_, 1>) {
    let _ = post_send!(qp, [wr::Send::new(data)], unsignaled).unwrap();
}

fn method(qp: &mut QueuePair<Rc, Rts, Unbooked>, data: wr::Sge<'_, 1>) {
    let _ = qp.post_send_unsignaled(wr::Send::new(data)).unwrap();
}

fn main() {}
