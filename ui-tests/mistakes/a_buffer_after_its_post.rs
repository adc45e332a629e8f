// A mistake: the program reads a buffer that the device owns.
use proverbs::prelude::*;

fn send(qp: &mut QueuePair<Rc, Rts>, buf: Buf) -> Result<(), PostError<Buf>> {
    qp.post_send(wr::Send::new(buf))?;
    println!("{} bytes", buf.len());
    Ok(())
}

fn main() {}
