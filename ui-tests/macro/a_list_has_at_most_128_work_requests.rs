// Proves R9.10, ibv_post_send(3): a list has at most 128 work requests.
// Enforced by `post_send!`.
use proverbs::prelude::*;

fn e() -> wr::WorkRequest<wr::Send, wr::Empty> {
    wr::Send::new(wr::Empty)
}

#[rustfmt::skip]
fn list(qp: &mut QueuePair<Rc, Rts>) {
    post_send!(qp, [
        e(), e(), e(), e(), e(), e(), e(), e(), e(), e(), e(), e(), e(), e(), e(), e(), e(), e(),
        e(), e(), e(), e(), e(), e(), e(), e(), e(), e(), e(), e(), e(), e(), e(), e(), e(), e(),
        e(), e(), e(), e(), e(), e(), e(), e(), e(), e(), e(), e(), e(), e(), e(), e(), e(), e(),
        e(), e(), e(), e(), e(), e(), e(), e(), e(), e(), e(), e(), e(), e(), e(), e(), e(), e(),
        e(), e(), e(), e(), e(), e(), e(), e(), e(), e(), e(), e(), e(), e(), e(), e(), e(), e(),
        e(), e(), e(), e(), e(), e(), e(), e(), e(), e(), e(), e(), e(), e(), e(), e(), e(), e(),
        e(), e(), e(), e(), e(), e(), e(), e(), e(), e(), e(), e(), e(), e(), e(), e(), e(), e(),
        e(), e(), e()
    ]).unwrap();
}

fn main() {}
