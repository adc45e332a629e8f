// R18.26, ibv_query_device_ex(3): the legal twin of the test of this name.
use proverbs::device::{Can, FlushGlobal};
use proverbs::prelude::*;

fn flush(context: &Context) -> Option<Can<FlushGlobal>> {
    context.abilities().ok()?.can()
}
