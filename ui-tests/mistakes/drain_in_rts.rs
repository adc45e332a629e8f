// A mistake: the program drains a queue pair that is not in the error state.
use proverbs::prelude::*;

fn stop(
    mut qp: QueuePair<Rc, Rts>,
    cq: &mut CompletionQueue,
) -> Result<(), Box<dyn std::error::Error>> {
    qp.drain(cq, |_| ())?;
    Ok(())
}

fn main() {}
