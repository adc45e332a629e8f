// Proves R6.3, R18.2: memory is written, and is a slice, if it bears that, whichever way.
// Enforced by `CanBeWritten`, `CanBeSlices` and `RegistersAs`.
use proverbs::device::Can;
use proverbs::{ext::on_demand::OnDemand, memory::SharedMapping};
use proverbs::prelude::*;

fn pool(pd: &ProtectionDomain, memory: &'static [u8]) {
    let _ = pd.pool(64).contexts(|i| i).create_in(memory);
}

fn arena(pd: &ProtectionDomain, memory: &'static [u8]) {
    let _ = pd.arena(8).contexts(|i| i).create_in(memory);
}

fn shared_arena(pd: &ProtectionDomain, memory: SharedMapping) {
    let _ = pd.arena(8).contexts(|i| i).create_in(memory);
}

fn moved(region: MemoryRegion<RemoteWrite>, memory: &'static [u8]) {
    let _ = region.rereg_memory(memory);
}

fn on_demand(pd: &ProtectionDomain, can: &Can<OnDemand<Rc, RemoteWrite>>, memory: &'static [u8]) {
    let _ = pd.region().on_demand(can).create_in(memory);
}

fn main() {}
