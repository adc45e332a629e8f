// Proves R2.10, R4.1, R4.5, ibv_post_send(3): each opcode takes only some data.
// Enforced by `Takes`.
use proverbs::ext::windows::Revocable;
use proverbs::prelude::*;
use proverbs::wr::IntoData;

fn sends<D: IntoData<Data = D>>(data: [D; 5], at: RemoteSpan, window: Revocable<RemoteWrite>) {
    let [a, b, c, d, e] = data;
    let _ = wr::Send::new(a);
    let _ = wr::SendWithImm::new(b, 1);
    let _ = ext::windows::SendWithInv::new(c, window);
    let _ = wr::RdmaWrite::new(d, at);
    let _ = wr::RdmaWriteWithImm::new(e, at, 1);
}

fn main() {}
