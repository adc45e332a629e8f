// Twin of raw/a_raw_shared_receive_queue_serves_raw_queue_pairs.rs.
use proverbs::memory::Raw;
use proverbs::prelude::*;
use proverbs::qp::Max;

profile! { Unbooked { receive: SharedRq, entry: Raw } }

fn attach(pd: &ProtectionDomain, cq: &CompletionQueue<Raw>) {
    let srq = pd.create_raw_srq::<Rc, Max<1>>(8).unwrap();
    let _ = pd.create_qp::<Rc, Unbooked>(cq, cq, Depth::on_srq(8, &srq));
}

unsafe fn post(srq: &mut SharedReceiveQueue<Rc, Raw>, sge: wr::Sge<'_, 1>) {
    // SAFETY: the caller promises it.
    let _ = unsafe { srq.post_srq_recv_unchecked(wr::Recv::new(sge)) };
}

fn main() {}
