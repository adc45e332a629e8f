// The legal twin of the mistake of this name.
use proverbs::prelude::*;

fn stop(
    qp: QueuePair<Rc, Rts>,
    cq: &mut CompletionQueue,
) -> Result<(), Box<dyn std::error::Error>> {
    qp.to_error()?.drain(cq, |_| ())?;
    Ok(())
}
