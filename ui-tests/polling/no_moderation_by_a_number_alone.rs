// Proves R22.1, ibv_modify_cq(3): events are moderated by a number and a time.
// Enforced by `Moderation::new`, the only way to one.
use proverbs::ext::tuning::Moderation;
use proverbs::device::{Can, CqModeration};
use proverbs::prelude::*;

fn by_a_number(cq: &mut CompletionQueue, can: &Can<CqModeration>) {
    let _ = cq.moderate(can, Moderation::new(16));
}

fn main() {}
