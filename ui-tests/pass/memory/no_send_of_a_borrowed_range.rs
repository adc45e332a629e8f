// R18.31, ibv_post_send(3): the legal twin of the test of this name.
use proverbs::prelude::*;

fn forward(qp: &mut QueuePair<Rc, Rts>, mut buf: Buf) -> Result<(), Box<dyn std::error::Error>> {
    buf.narrow(40..)?;
    qp.post_send(wr::Send::new(buf))?;
    Ok(())
}
