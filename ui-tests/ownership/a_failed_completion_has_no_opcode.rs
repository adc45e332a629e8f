// Proves R10.1, ibv_poll_cq(3): a failed completion has status, vendor_err and qp_num alone.
// Enforced by `Failed`, which has no such field.
use proverbs::completion::WcOpcode;
use proverbs::prelude::*;

fn sort(completion: Completion<'_, Buf>) -> Option<WcOpcode> {
    match completion.outcome() {
        Outcome::Failed(failed) => Some(failed.opcode),
        _ => None,
    }
}

fn main() {}
