// Proves R13.7, ibv_create_cq(3): a completion vector needs a channel, and there is one of each.
// Enforced by `TakesVector` and `TakesChannel`.
use proverbs::completion::CompletionChannel;
use proverbs::device::{CompVector, Lane};
use proverbs::prelude::*;

fn without_a_channel(context: &Context, vector: &CompVector) {
    let _ = context.cq(64).vector(vector).create::<Buf>();
}

fn before_the_channel(lane: &Lane, channel: &CompletionChannel, vector: &CompVector) {
    let _ = lane.cq(64).vector(vector).channel(channel).create::<Buf>();
}

fn twice(context: &Context, channel: &CompletionChannel, vectors: &[CompVector; 2]) {
    let [one, two] = vectors;
    let _ = context.cq(64).channel(channel).vector(one).vector(two).create::<Buf>();
}

fn main() {}
