// R14.4, ibv_create_cq_ex(3): the legal twin of ui-tests/polling/only_fields_that_were_asked_for_are_read.rs.
use proverbs::completion::{CompletionQueueEx, CompletionTs};

fn read(cq: &mut CompletionQueueEx<CompletionTs>) {
    for (completion, fields) in cq.poll().unwrap() {
        println!("{completion:?} {:?}", fields.completion_ts());
    }
}
