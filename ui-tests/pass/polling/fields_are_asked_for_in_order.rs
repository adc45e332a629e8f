// R14.4, ibv_create_cq_ex(3): the legal twin of the test of this name.
use proverbs::prelude::*;

use proverbs::ext::extended_polling::{CompletionTs, CompletionWallclock};

fn create(context: &Context) {
    let _ = context.cq(64).fields::<(CompletionTs, CompletionWallclock)>().create::<Buf>();
}
