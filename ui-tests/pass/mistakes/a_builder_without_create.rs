// The legal twin of the mistake of this name.
use proverbs::prelude::*;

fn create(context: &Context, pd: &ProtectionDomain) -> Result<(), proverbs::Error> {
    let cq = context.cq(32).create()?;
    pd.create_qp::<Rc, DefaultProfile>(&cq, &cq, Depth { send: 4, recv: 4 })?;
    Ok(())
}
