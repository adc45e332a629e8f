// Proves R16.5, rdma_create_qp(3): a queue pair is made on an id that is bound to a device.
// Enforced by `HasDevice`.
use proverbs::{cm::*, prelude::*};

fn early(id: CmId<Tcp, Created>, pd: &ProtectionDomain, cq: &CompletionQueue) {
    let _ = id.create_qp::<DefaultProfile>(pd, cq, cq, Depth { send: 8, recv: 8 });
}

fn main() {}
