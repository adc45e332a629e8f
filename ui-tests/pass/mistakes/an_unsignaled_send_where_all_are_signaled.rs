// The legal twin of the mistake of this name.
use proverbs::prelude::*;

profile! { Stream { signaling: Selective } }

fn send(qp: &mut QueuePair<Rc, Rts, Stream>, buf: Buf) -> Result<(), Box<dyn std::error::Error>> {
    let _unsettled = qp.post_send_unsignaled(wr::Send::new(buf))?;
    qp.settle()?;
    Ok(())
}
