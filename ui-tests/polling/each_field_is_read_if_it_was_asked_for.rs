// Proves R14.4, ibv_create_cq_ex(3): each field that the queue was created for is readable.
// Enforced by `HasField`.
use proverbs::ext::extended_polling::{CompletionQueueEx, CompletionWallclock};

fn read(cq: &mut CompletionQueueEx<CompletionWallclock>) {
    for (completion, fields) in cq.poll().unwrap() {
        println!("{completion:?} {:?}", fields.completion_ts());
        println!("{:?}", fields.dlid_path_bits());
    }
}

fn main() {}
