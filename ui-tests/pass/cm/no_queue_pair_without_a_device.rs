// R16.5, rdma_create_qp(3): the legal twin of the test of this name.
use proverbs::cm::*;
use proverbs::prelude::*;

fn in_time(id: CmId<Tcp, AddrResolved>, pd: &ProtectionDomain, cq: &CompletionQueue) {
    let _ = id.create_qp::<DefaultProfile>(pd, cq, cq, Depth { send: 8, recv: 8 });
}
