// Proves R18.32, ibv_post_send(3): a buffer that was joined with another is part of that one.
// Enforced by `Buf::join(next)`.
use proverbs::prelude::*;

fn join(arena: &Arena, qp: &mut QueuePair<Rc, Rts>) -> Result<(), Box<dyn std::error::Error>> {
    let mut head = arena.take(256).ok_or("no room")?;
    let tail = head.split_off(64)?;
    head.join(tail)?;
    qp.post_send(wr::Send::new(tail))?;
    Ok(())
}

fn main() {}
