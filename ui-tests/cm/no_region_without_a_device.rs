// Proves R16.5, rdma_reg_msgs(3): memory is registered on an id that is bound to a device.
// Enforced by `HasDevice`.
use proverbs::cm::*;

fn early(id: CmId<Tcp, Created>) {
    let _ = id.reg_msgs::<()>(8, 64);
}

fn main() {}
