// R27.2, efadv_create_qp_ex(3): the legal twin of the test of this name.
use proverbs::ext::extended_posting::ExtendedPosting;
use proverbs::prelude::*;

profile! { Spread { posting: ExtendedPosting<(Srd, wr::RdmaWrite)> } }

fn sent(qp: &mut QueuePair<Srd, Rts, Spread>, to: wr::Destination, buf: Buf) {
    qp.post_send(wr::Send::new(buf).to(to)).unwrap();
}

fn written(
    qp: &mut QueuePair<Srd, Rts, Spread>,
    to: wr::Destination,
    buf: Buf,
    at: RemoteSlice<RemoteWrite>,
) {
    post_send!(qp, [wr::RdmaWriteWithImm::new(buf, at.write(), 7).to(to)]).unwrap();
}

fn added(qp: &mut QueuePair<Rc, Rts>, buf: Buf, at: RemoteSlice<RemoteAtomic>) {
    qp.post_send(wr::FetchAndAdd::new(buf, at.atomic(0).unwrap(), 1)).unwrap();
}
