// R20.7, ibv_reg_mr(3): the legal twin of the test of this name.
use proverbs::ext::on_demand::{ImplicitBuf, ImplicitRegion};
use proverbs::memory::Mapping;
use proverbs::prelude::*;

fn for_peers(region: &MemoryRegion<RemoteRead>) {
    let _ = region.remote();
}

fn written_here(buf: ImplicitBuf<Rc, wr::Send>) {
    if let Ok(mut memory) = buf.into_memory::<Vec<u8>>() {
        memory[0] = 1;
    }
}

fn written_by_the_device(buf: Buf) {
    let _ = wr::Recv::new(buf);
}

fn written_by_others(region: &ImplicitRegion<Rc, wr::Send>, memory: Mapping) {
    let _ = region.adopt(memory);
}

fn borrowed(region: &ImplicitRegion<Rc, wr::Send>, bytes: Vec<u8>) {
    let _ = region.adopt(bytes);
}
