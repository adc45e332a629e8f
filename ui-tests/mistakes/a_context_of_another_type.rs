// A mistake: the program posts a buffer with a context on a queue of buffers without one.
use proverbs::prelude::*;

fn send(qp: &mut QueuePair<Rc, Rts>, pd: &ProtectionDomain) -> Result<(), proverbs::Error> {
    let pool = pd.pool(64).contexts(|index| index as u64).create(8)?;
    let buf = pool.take().expect("a buffer is free");
    let _ = qp.post_send(wr::Send::new(buf));
    Ok(())
}

fn main() {}
