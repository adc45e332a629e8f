// R18.32, ibv_post_send(3): the legal twin of the test of this name.
use proverbs::prelude::*;

fn join(arena: &Arena, qp: &mut QueuePair<Rc, Rts>) -> Result<(), Box<dyn std::error::Error>> {
    let mut head = arena.take(256).ok_or("no room")?;
    let tail = head.split_off(64)?;
    head.join(tail)?;
    qp.post_send(wr::Send::new(head))?;
    Ok(())
}
