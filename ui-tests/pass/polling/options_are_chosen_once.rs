// R13.7, R14.4, ibv_create_cq_ex(3): the legal twin of the test of this name.
use proverbs::completion::CompletionChannel;
use proverbs::ext::extended_polling::{CompletionTs, CompletionWallclock};
use proverbs::prelude::*;

fn channels(context: &Context, one: &CompletionChannel) {
    let _ = context.cq(64).channel(one).create::<Buf>();
}

fn fields(context: &Context) {
    let timed = context.cq(64).fields::<(CompletionTs, CompletionWallclock)>();
    let _ = timed.create::<Buf>();
}
