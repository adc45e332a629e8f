// R6.3, R18.2, ibv_reg_mr(3): the legal twin of the test of this name.
use proverbs::device::Can;
use proverbs::ext::on_demand::OnDemand;
use proverbs::prelude::*;

fn pool(pd: &ProtectionDomain, memory: Vec<u8>) {
    let _ = pd.pool(64).contexts(|i| i).create_in(memory);
}

fn arena(pd: &ProtectionDomain, memory: Vec<u8>) {
    let _ = pd.arena(8).contexts(|i| i).create_in(memory);
}

fn shared_arena(pd: &ProtectionDomain, memory: Vec<u8>) {
    let _ = pd.arena(8).contexts(|i| i).create_in(memory);
}

fn moved(region: MemoryRegion<RemoteWrite>, memory: Vec<u8>) {
    let _ = region.rereg_memory(memory);
}

fn on_demand(pd: &ProtectionDomain, can: &Can<OnDemand<Rc, RemoteWrite>>, memory: Vec<u8>) {
    let _ = pd.region().on_demand(can).create_in(memory);
}
