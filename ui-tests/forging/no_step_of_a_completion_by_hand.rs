// Proves R11.1: only a completion returns an entry and sets its length.
// Enforced by `unsafe` methods of `Entry`, which the crate calls where it has the completion.
use proverbs::memory::Entry;

fn shorter(entry: &impl Entry) {
    entry.received(1);
}

fn done(entry: &mut impl Entry) {
    entry.completed(|| true);
}

fn main() {}

// Safe code cannot set the length of a buffer through a shared reference.
// Safe code cannot declare that the work request of a rejected memory window completed.
