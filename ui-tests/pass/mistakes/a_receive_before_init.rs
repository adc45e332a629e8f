// The legal twin of the mistake of this name.
use proverbs::prelude::*;

fn receive(
    pd: &ProtectionDomain,
    cq: &CompletionQueue,
    buf: Buf,
) -> Result<(), Box<dyn std::error::Error>> {
    let qp = pd.create_qp::<Rc, DefaultProfile>(cq, cq, Depth { send: 4, recv: 4 })?;
    let init = ConnectedInit { pkey_index: 0, port: 1, access: QpAccess::empty() };
    let mut qp = qp.modify(init)?;
    qp.post_recv(wr::Recv::new(buf))?;
    Ok(())
}
