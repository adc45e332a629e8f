// The legal twin of the mistake of this name.
use proverbs::prelude::*;

profile! { Wide { max_send_sge: 2, entry: BufList } }

fn create(context: &Context, pd: &ProtectionDomain) -> Result<(), proverbs::Error> {
    let cq: CompletionQueue<BufList> = context.create_cq(32)?;
    pd.create_qp::<Rc, Wide>(&cq, &cq, Depth { send: 4, recv: 4 })?;
    Ok(())
}
