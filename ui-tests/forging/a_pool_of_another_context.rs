// Proves R17.1: a shared receive queue goes no further than the contexts of its pool.
// Enforced by `FeedsSrq`, which is sealed for each context.
use proverbs::prelude::*;
use proverbs::srq::FeedsSrq;

/// May leave its thread.
struct Mine;

impl FeedsSrq<Mine> for Pool<std::rc::Rc<()>> {}

fn main() {}

// Safe code cannot pretend that the contexts of a pool are of another type and may
// change threads.
