// Proves R16.5, rdma_create_qp(3): everything of a device is made on an id that has one.
// Enforced by `HasDevice`.
use proverbs::{cm::*, prelude::*};

fn memory(id: &CmId<Tcp, Bound>) {
    let _ = id.pd();
    let _ = id.reg_read(64);
    let _ = id.reg_write(64);
}

fn device(id: &CmId<Udp, Bound>) {
    let _ = id.context();
    let _ = id.port();
}

fn brought(id: &CmId<Tcp, Bound>, pd: &ProtectionDomain, qp: QueuePair<Rc, Reset>) {
    let _ = id.init_qp(pd, qp);
}

fn main() {}
