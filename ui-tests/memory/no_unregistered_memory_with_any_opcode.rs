// Proves R2.10, ibv_post_send(3): what is not inline is registered (`Source`).
// Enforced by `Source`.
use proverbs::ext::windows::Revocable;
use proverbs::prelude::*;

fn constructors(bytes: &[u8], at: RemoteSpan, window: Revocable<RemoteWrite>) {
    let _ = wr::SendWithImm::new(bytes, 1);
    let _ = ext::windows::SendWithInv::new(bytes, window);
    let _ = wr::RdmaWrite::new(bytes, at);
    let _ = wr::RdmaWriteWithImm::new(bytes, at, 1);
}

fn main() {}
