// A mistake: the program posts a receive on a queue pair that was just created.
use proverbs::prelude::*;

fn receive(
    pd: &ProtectionDomain,
    cq: &CompletionQueue,
    buf: Buf,
) -> Result<(), Box<dyn std::error::Error>> {
    let mut qp = pd.create_qp::<Rc, DefaultProfile>(cq, cq, Depth { send: 4, recv: 4 })?;
    qp.post_recv(wr::Recv::new(buf))?;
    Ok(())
}

fn main() {}
