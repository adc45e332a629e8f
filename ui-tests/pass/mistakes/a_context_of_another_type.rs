// The legal twin of the mistake of this name.
use proverbs::prelude::*;

profile! { Numbered { entry: Buf<u64> } }

fn send(
    qp: &mut QueuePair<Rc, Rts, Numbered>,
    pd: &ProtectionDomain,
) -> Result<(), proverbs::Error> {
    let pool = pd.pool(64).contexts(|index| index as u64).create(8)?;
    let buf = pool.take().expect("a buffer is free");
    let _ = qp.post_send(wr::Send::new(buf));
    Ok(())
}
