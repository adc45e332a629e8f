// A mistake: the program gives a completion of another queue pair to `?`.
use proverbs::prelude::*;

profile! { Stream { signaling: Selective } }

fn poll(
    qp: &mut QueuePair<Rc, Rts, Stream>,
    cq: &mut CompletionQueue,
) -> Result<(), Box<dyn std::error::Error>> {
    for completion in cq.poll()? {
        qp.complete(completion)?;
    }
    Ok(())
}

fn main() {}
