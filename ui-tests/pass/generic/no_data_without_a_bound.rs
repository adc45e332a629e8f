// R2.10, ibv_post_send(3): the legal twin of the test of this name.
use proverbs::ext::windows::Revocable;
use proverbs::prelude::*;
use proverbs::wr::{IntoData, Takes};

fn sends<D: IntoData<Data = D>>(data: [D; 5], at: RemoteSpan, window: Revocable<RemoteWrite>)
where
    wr::Send: Takes<D>,
    wr::SendWithImm: Takes<D>,
    ext::windows::SendWithInv: Takes<D>,
    wr::RdmaWrite: Takes<D>,
    wr::RdmaWriteWithImm: Takes<D>,
{
    let [a, b, c, d, e] = data;
    let _ = wr::Send::new(a);
    let _ = wr::SendWithImm::new(b, 1);
    let _ = ext::windows::SendWithInv::new(c, window);
    let _ = wr::RdmaWrite::new(d, at);
    let _ = wr::RdmaWriteWithImm::new(e, at, 1);
}
