// Proves R10.14: a completion that a drain hands on is used there, before the next poll.
// Enforced by the borrow of the completion queue.
use proverbs::prelude::*;
use proverbs::qp::Drained;

fn keep<'cq>(
    qp: &mut QueuePair<Rc, state::Err>,
    cq: &'cq mut CompletionQueue,
    kept: &mut Vec<Completion<'cq, Buf>>,
) {
    let _ = qp.drain(cq, |drained| {
        if let Drained::Other(completion) = drained {
            kept.push(completion);
        }
    });
}

fn main() {}
