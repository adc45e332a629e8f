// Proves R25.2, ibv_wr_post(3): every way to post asks what the queue pair was created for.
// Enforced by `CreatedFor`.
use proverbs::ext::persistence::RemoteFlush;
use proverbs::post::SendList;
use proverbs::{ext::extended_posting::ExtendedPosting, prelude::*};

profile! { Mine { posting: ExtendedPosting } }
profile! { Quiet { posting: ExtendedPosting, signaling: Selective } }
profile! { Spread { posting: ExtendedPosting<Srd>, signaling: Selective } }

fn pushed(list: &mut SendList<'_, Rc, Mine, 1>, what: RemoteFlush) {
    list.push(ext::persistence::Flush::new(what)).unwrap();
}

fn extended(list: &mut SendList<'_, Rc, Mine, 1>, all: Vec<RemoteFlush>) {
    list.extend(all.into_iter().map(ext::persistence::Flush::new)).unwrap();
}

fn unsignaled(qp: &mut QueuePair<Rc, Rts, Quiet>, what: RemoteFlush) {
    let _ = qp.post_send_unsignaled(ext::persistence::Flush::new(what));
}

fn prepared(
    qp: &mut QueuePair<Srd, Rts, Spread>,
    write: &mut wr::Prepared<wr::RdmaWrite, wr::Placeholder, wr::Datagram>,
    data: Buf,
) {
    let _ = qp.post_prepared_unsignaled(write, data);
}

fn main() {}
