// Proves R11.2, ibv_post_recv(3): without bookkeeping only `unsafe` posts receives (`Owned`).
// Enforced by `Owned`.
use proverbs::memory::Raw;
use proverbs::prelude::*;

profile! { Unbooked { entry: Raw } }

fn list(qp: &mut QueuePair<Rc, Rts, Unbooked>, data: wr::Sge<'_, 1>) {
    post_recv!(qp, [wr::Recv::new(data)]).unwrap();
}

fn main() {}
