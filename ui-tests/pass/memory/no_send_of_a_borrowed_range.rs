// R18.31, ibv_post_send(3): the legal twin of ui-tests/memory/no_send_of_a_borrowed_range.rs.
use proverbs::prelude::*;

fn forward(qp: &mut QueuePair<Rc, Rts>, mut buf: Buf) -> Result<(), Box<dyn std::error::Error>> {
    buf.narrow(40..)?;
    qp.post_send(wr::Send::new(buf))?;
    Ok(())
}
