// A mistake: the program sends a region instead of a piece of it.
use proverbs::prelude::*;

fn send(
    qp: &mut QueuePair<Rc, Rts>,
    region: MemoryRegion<LocalWrite>,
) -> Result<(), PostError<Buf>> {
    qp.post_send(wr::Send::new(region))
}

fn main() {}
