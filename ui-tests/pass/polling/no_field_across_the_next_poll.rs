// R14.5, ibv_create_cq_ex(3): the legal twin of the test of this name.
use proverbs::ext::extended_polling::{CompletionQueueEx, CompletionTs};

fn kept(cq: &mut CompletionQueueEx<CompletionTs>) {
    let (completion, fields) = cq.poll_one().unwrap().unwrap();
    drop(completion);
    println!("{:?}", fields.completion_ts());
    let _ = cq.poll_one();
}
