// Proves R11.1, ibv_create_qp(3): the program chooses the wr_ids of a raw shared receive queue, and a
// queue pair with bookkeeping would treat them as buffers. Enforced by `ReceivedAs`, `Owned`.
use proverbs::memory::Raw;
use proverbs::prelude::*;
use proverbs::qp::Max;

profile! { Booked { receive: SharedRq } }

fn attach(pd: &ProtectionDomain, cq: &CompletionQueue) {
    let srq = pd.create_raw_srq::<Rc, Max<1>>(8).unwrap();
    let _ = pd.create_qp::<Rc, Booked>(cq, cq, Depth::on_srq(8, &srq));
}

fn post(srq: &mut SharedReceiveQueue<Rc, Raw>, sge: wr::Sge<'_, 1>) {
    let _ = srq.post_srq_recv(wr::Recv::new(sge));
}

fn main() {}
