// Proves R13.7, R14.4, ibv_create_cq_ex(3): a completion queue has one channel and one set of fields.
// Enforced by the types of `CqBuilder`.
use proverbs::ext::extended_polling::{CompletionTs, CompletionWallclock};
use proverbs::completion::CompletionChannel;
use proverbs::prelude::*;

fn channels(context: &Context, one: &CompletionChannel, two: &CompletionChannel) {
    let _ = context.cq(64).channel(one).channel(two).create::<Buf>();
}

fn fields(context: &Context) {
    let timed = context.cq(64).fields::<CompletionTs>();
    let _ = timed.fields::<CompletionWallclock>().create::<Buf>();
}

fn main() {}
