// R16.5, rdma_create_qp(3): the legal twin of the test of this name.
use proverbs::{cm::*, prelude::*};

fn memory(id: &CmId<Tcp, AddrResolved>) {
    let _ = id.pd();
    let _ = id.reg_read(64);
    let _ = id.reg_write(64);
}

fn device(id: &CmId<Udp, AddrResolved>) {
    let _ = id.context();
    let _ = id.port();
}

fn brought(id: &CmId<Tcp, AddrResolved>, pd: &ProtectionDomain, qp: QueuePair<Rc, Reset>) {
    let _ = id.init_qp(pd, qp);
}
