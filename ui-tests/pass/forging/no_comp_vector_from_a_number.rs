// R9.13, ibv_create_cq(3): the legal twin of ui-tests/forging/no_comp_vector_from_a_number.rs.
use proverbs::completion::CompletionChannel;
use proverbs::prelude::*;

fn on_the_third(context: &Context, channel: &CompletionChannel) {
    let third = &context.comp_vectors()[3];
    let _cq: CompletionQueue = context.create_cq_on_vector(64, channel, third).unwrap();
}
