// R13.7, ibv_create_cq(3): the legal twin of the test of this name.
use proverbs::completion::CompletionChannel;
use proverbs::device::{CompVector, Lane};
use proverbs::prelude::*;

fn without_a_channel(context: &Context, channel: &CompletionChannel, vector: &CompVector) {
    let _ = context.cq(64).channel(channel).vector(vector).create::<Buf>();
}

fn before_the_channel(lane: &Lane, channel: &CompletionChannel, vector: &CompVector) {
    let _ = lane.cq(64).channel(channel).vector(vector).create::<Buf>();
}

fn twice(context: &Context, channel: &CompletionChannel, vectors: &[CompVector; 2]) {
    let [_, two] = vectors;
    let _ = context.cq(64).channel(channel).vector(two).create::<Buf>();
}
