// Proves R18.31: a part of a buffer is posted as the buffer, narrowed, not as a range.
// Enforced by `Source`.
use proverbs::prelude::*;

fn forward(qp: &mut QueuePair<Rc, Rts>, buf: &mut Buf) -> Result<(), Box<dyn std::error::Error>> {
    qp.post_send(wr::Send::new(&buf[40..]))?;
    buf.narrow(40..)?;
    qp.post_send(wr::Send::new(buf))?;
    Ok(())
}

fn main() {}
