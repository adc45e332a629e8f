// Proves R9.13, ibv_create_cq(3): no completion vector but the context's own.
// Enforced by `CompVector`, which only `Context::comp_vectors` makes.
use proverbs::completion::CompletionChannel;
use proverbs::prelude::*;

fn on_the_third(context: &Context, channel: &CompletionChannel) {
    let _cq: CompletionQueue = context.cq(64).channel(channel).vector(3).create().unwrap();
}

fn main() {}
