// Proves R20.7: peers have no access to all memory of the process, and sent memory is not written.
// Enforced by `ImplicitRegion`, which has no key for others, and by `ImplicitBuf`, which is read-only.
use proverbs::{ext::on_demand::{ImplicitBuf, ImplicitRegion}, memory::SharedMapping};
use proverbs::prelude::*;

fn for_peers(region: &ImplicitRegion<Rc, wr::Send>) {
    let _ = region.remote();
}

fn written_here(buf: ImplicitBuf<Rc, wr::Send>) {
    buf[0] = 1;
}

fn written_by_the_device(buf: ImplicitBuf<Rc, wr::Send>) {
    let _ = wr::Recv::new(buf);
}

fn written_by_others(region: &ImplicitRegion<Rc, wr::Send>, memory: SharedMapping) {
    let _ = region.adopt(memory);
}

fn borrowed(region: &ImplicitRegion<Rc, wr::Send>, bytes: &[u8]) {
    let _ = region.adopt(bytes);
}

fn main() {}
