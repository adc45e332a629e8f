// Proves R14.4: a completion queue is created with existing fields, each named once.
// Enforced by `F: WcFields`.
use proverbs::prelude::*;

use proverbs::ext::extended_polling::{CompletionTs, CompletionWallclock};

fn create(context: &Context) {
    let _ = context.cq(64).fields::<(CompletionWallclock, CompletionTs)>().create::<Buf>();
}

fn main() {}
