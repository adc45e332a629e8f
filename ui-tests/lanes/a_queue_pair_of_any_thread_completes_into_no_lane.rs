// Proves R17.9, ibv_create_cq_ex(3): the end of a queue pair cleans its queues, on whatever thread.
// Enforced by `InLane` in the queue's type.
use proverbs::prelude::*;

fn mixed(pd: &ProtectionDomain, cq: &CompletionQueue<Buf, InLane>) -> Result<(), proverbs::Error> {
    let depth = Depth { send: 4, recv: 4 };
    let _ = pd.create_qp::<Rc, DefaultProfile>(cq, cq, depth)?;
    Ok(())
}

fn main() {}
