// The legal twin of the mistake of this name.
use proverbs::prelude::*;

fn read(
    qp: &mut QueuePair<Rc, Rts>,
    pd: &ProtectionDomain,
    buf: Buf,
) -> Result<(), Box<dyn std::error::Error>> {
    let region = pd.register::<RemoteReadWrite>(64)?;
    qp.post_send(wr::RdmaRead::new(buf, region.remote().read()))?;
    Ok(())
}
