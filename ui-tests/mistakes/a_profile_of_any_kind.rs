// A mistake: the program posts in a function that is generic over the profile, and bounds nothing.
use proverbs::prelude::*;

fn send<P: Profile<Entry = Buf>>(qp: &mut QueuePair<Rc, Rts, P>, buf: Buf) -> bool {
    qp.post_send(wr::Send::new(buf)).is_ok()
}

fn main() {}
