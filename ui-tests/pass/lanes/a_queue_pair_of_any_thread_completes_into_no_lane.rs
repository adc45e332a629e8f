// R17.9, ibv_create_cq_ex(3): the legal twin of the test of this name.
use proverbs::prelude::*;

fn alike(pd: &ProtectionDomain, cq: &CompletionQueue) -> Result<(), proverbs::Error> {
    let depth = Depth { send: 4, recv: 4 };
    let _ = pd.create_qp::<Rc, DefaultProfile>(cq, cq, depth)?;
    Ok(())
}
