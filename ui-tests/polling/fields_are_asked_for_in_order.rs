// Proves R14.4: a completion queue is asked for fields that there are, each once.
// Enforced by `F: WcFields`.
use proverbs::prelude::*;

use proverbs::completion::{CompletionTs, CompletionWallclock};

fn create(context: &Context) {
    let _ = context.create_cq_ex::<(CompletionWallclock, CompletionTs), Buf>(64);
}

fn main() {}
