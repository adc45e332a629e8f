// A mistake: the program reads from a region that was registered for writes.
use proverbs::prelude::*;

fn read(
    qp: &mut QueuePair<Rc, Rts>,
    pd: &ProtectionDomain,
    buf: Buf,
) -> Result<(), Box<dyn std::error::Error>> {
    let region = pd.register::<RemoteWrite>(64)?;
    qp.post_send(wr::RdmaRead::new(buf, region.remote().read()))?;
    Ok(())
}

fn main() {}
