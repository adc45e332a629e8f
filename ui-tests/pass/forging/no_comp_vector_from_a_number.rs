// R9.13, ibv_create_cq(3): the legal twin of the test of this name.
use proverbs::completion::CompletionChannel;
use proverbs::prelude::*;

fn on_the_third(context: &Context, channel: &CompletionChannel) {
    let third = &context.comp_vectors()[3];
    let _cq: CompletionQueue = context.cq(64).channel(channel).vector(third).create().unwrap();
}
