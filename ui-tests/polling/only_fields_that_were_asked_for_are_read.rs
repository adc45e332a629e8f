// Proves R14.4, ibv_create_cq_ex(3): only fields that the queue was created for are readable.
// Enforced by `F: HasField<..>` on the readers.
use proverbs::ext::extended_polling::{CompletionQueueEx, CompletionTs};

fn read(cq: &mut CompletionQueueEx<CompletionTs>) {
    for (completion, fields) in cq.poll().unwrap() {
        println!("{completion:?} {:?}", fields.completion_wallclock_ns());
    }
}

fn main() {}
