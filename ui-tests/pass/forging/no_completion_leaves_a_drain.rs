// R10.14, ibv_poll_cq(3): the legal twin of the test of this name.
use proverbs::prelude::*;
use proverbs::qp::Drained;

fn keep(qp: &mut QueuePair<Rc, state::Err>, cq: &mut CompletionQueue, kept: &mut Vec<Buf>) {
    let _ = qp.drain(cq, |drained| {
        if let Drained::Other(completion) = drained {
            kept.extend(completion.into_entry());
        }
    });
}
