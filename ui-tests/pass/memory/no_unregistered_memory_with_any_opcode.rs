// R2.10, ibv_post_send(3): the legal twin of the test of this name.
use proverbs::ext::windows::Revocable;
use proverbs::prelude::*;

fn constructors(bytes: &[u8], at: RemoteSpan, window: Revocable<RemoteWrite>) {
    let _ = wr::SendWithImm::inline_slice(bytes, 1);
    let _ = ext::windows::SendWithInv::inline_slice(bytes, window);
    let _ = wr::RdmaWrite::inline_slice(bytes, at);
    let _ = wr::RdmaWriteWithImm::inline_slice(bytes, at, 1);
}
