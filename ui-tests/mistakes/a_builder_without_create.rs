// A mistake: the program passes a builder where its completion queue is needed.
use proverbs::prelude::*;

fn create(context: &Context, pd: &ProtectionDomain) -> Result<(), proverbs::Error> {
    let cq = context.cq(32);
    pd.create_qp::<Rc, DefaultProfile>(&cq, &cq, Depth { send: 4, recv: 4 })?;
    Ok(())
}

fn main() {}
