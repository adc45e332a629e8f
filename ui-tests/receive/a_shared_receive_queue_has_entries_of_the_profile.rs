// Proves R11.1, ibv_create_qp(3): a queue pair and its shared receive queue have one entry type.
// Enforced by `ReceivedAs`.
use proverbs::prelude::*;

profile! { Served { receive: SharedRq } }

fn create(pd: &ProtectionDomain, cq: &CompletionQueue, srq: &SharedReceiveQueue<Rc, BufList>) {
    pd.create_qp::<Rc, Served>(cq, cq, Depth::on_srq(16, srq)).unwrap();
}

fn main() {}
