// A mistake: the program names a queue pair without its state in a struct.
use proverbs::prelude::*;

struct Client {
    qp: QueuePair<Rc>,
}

fn main() {}
