// R18.26, ibv_query_device_ex(3): the legal twin of ui-tests/forging/no_ability_is_made_up.rs.
use proverbs::device::{Can, FlushGlobal};
use proverbs::prelude::*;

fn flush(context: &Context) -> Option<Can<FlushGlobal>> {
    context.abilities().ok()?.can()
}
