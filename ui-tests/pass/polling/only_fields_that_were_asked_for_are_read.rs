// R14.4, ibv_create_cq_ex(3): the legal twin of the test of this name.
use proverbs::ext::extended_polling::{CompletionQueueEx, CompletionTs};

fn read(cq: &mut CompletionQueueEx<CompletionTs>) {
    for (completion, fields) in cq.poll().unwrap() {
        println!("{completion:?} {:?}", fields.completion_ts());
    }
}
