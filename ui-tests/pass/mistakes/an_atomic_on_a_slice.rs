// The legal twin of the mistake of this name.
use proverbs::prelude::*;

fn count(
    qp: &mut QueuePair<Rc, Rts>,
    buf: Buf,
    at: RemoteSlice<RemoteAll>,
) -> Result<(), Box<dyn std::error::Error>> {
    qp.post_send(wr::FetchAndAdd::new(buf, at.atomic(0)?, 1))?;
    Ok(())
}
