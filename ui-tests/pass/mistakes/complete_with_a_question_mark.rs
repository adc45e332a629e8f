// The legal twin of the mistake of this name.
use proverbs::prelude::*;

profile! { Stream { signaling: Selective } }

fn poll(
    qp: &mut QueuePair<Rc, Rts, Stream>,
    cq: &mut CompletionQueue,
) -> Result<(), Box<dyn std::error::Error>> {
    for completion in cq.poll()? {
        match qp.complete(completion) {
            Ok(done) => done.status?,
            Err(_of_another_queue_pair) => {}
        }
    }
    Ok(())
}
