// A mistake: the program posts an unsignaled send on a queue pair of the default profile.
use proverbs::prelude::*;

fn send(qp: &mut QueuePair<Rc, Rts>, buf: Buf) -> Result<(), Box<dyn std::error::Error>> {
    qp.post_send_unsignaled(wr::Send::new(buf))?;
    Ok(())
}

fn main() {}
