// R21.2, ibv_query_rt_values_ex(3): the legal twin of the test of this name.
use proverbs::device::{Can, Timestamps};
use proverbs::prelude::*;

fn without(context: &Context) -> Option<Can<Timestamps>> {
    context.abilities().ok()?.can()
}

fn other(context: &Context, can: &Can<Timestamps>) {
    let _ = context.clock_now(can);
}
