// Proves R14.5: fields are readable until the next poll.
// Enforced by `ReadFields<'cq, F>`, which borrows the completion queue.
use proverbs::ext::extended_polling::{CompletionQueueEx, CompletionTs};

fn kept(cq: &mut CompletionQueueEx<CompletionTs>) {
    let (completion, fields) = cq.poll_one().unwrap().unwrap();
    drop(completion);
    let _ = cq.poll_one();
    println!("{:?}", fields.completion_ts());
}

fn main() {}
