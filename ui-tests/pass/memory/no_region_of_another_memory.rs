// R18.1, ibv_reg_mr(3): the legal twin of the test of this name.
use proverbs::memory::ExternalMemory;
use proverbs::prelude::*;

type General = ExternalMemory<for<'a> fn(&'a u8)>;
type Special = ExternalMemory<fn(&'static u8)>;

fn region(region: MemoryRegion<RemoteWrite, General>) -> MemoryRegion<RemoteWrite, General> {
    region
}

fn pool(pool: Pool<(), Special>) -> Pool<(), Special> {
    pool
}

fn keeper(memory: General) -> for<'a> fn(&'a u8) {
    memory.into_keeper()
}
