// R22.1, ibv_modify_cq(3): the legal twin of the test of this name.
use proverbs::device::{Can, CqModeration};
use proverbs::ext::tuning::Moderation;
use proverbs::prelude::*;

fn by_a_number(cq: &mut CompletionQueue, can: &Can<CqModeration>) {
    let _ = cq.moderate(can, Moderation::new(16, 50));
}
