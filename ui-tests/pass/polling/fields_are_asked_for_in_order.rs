// R14.4, ibv_create_cq_ex(3): the legal twin of ui-tests/polling/fields_are_asked_for_in_order.rs.
use proverbs::prelude::*;

use proverbs::completion::{CompletionTs, CompletionWallclock};

fn create(context: &Context) {
    let _ = context.create_cq_ex::<(CompletionTs, CompletionWallclock), Buf>(64);
}
