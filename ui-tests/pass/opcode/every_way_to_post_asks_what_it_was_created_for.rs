// R25.2, ibv_wr_post(3): the legal twin of the test of this name.
use proverbs::ext::extended_posting::ExtendedPosting;
use proverbs::ext::persistence::RemoteFlush;
use proverbs::post::SendList;
use proverbs::prelude::*;

profile! { Mine { posting: ExtendedPosting<ext::persistence::Flush> } }
profile! { Quiet { posting: ExtendedPosting<ext::persistence::Flush>, signaling: Selective } }
profile! { Spread { posting: ExtendedPosting<(Srd, wr::RdmaWrite)>, signaling: Selective } }

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
