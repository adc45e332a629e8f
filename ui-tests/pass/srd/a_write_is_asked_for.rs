// R27.7, efadv_create_qp_ex(3): the legal twin of the test of this name.
use proverbs::ext::extended_posting::ExtendedPosting;
use proverbs::prelude::*;

profile! { Writing { posting: ExtendedPosting<(Srd, wr::RdmaWrite)> } }
profile! { Reading { posting: ExtendedPosting<Srd> } }

fn written(
    qp: &mut QueuePair<Srd, Rts, Writing>,
    to: wr::Destination,
    data: Buf,
    at: RemoteSlice<RemoteWrite>,
) {
    qp.post_send(wr::RdmaWrite::new(data, at.write()).to(to)).unwrap();
}

fn told(
    qp: &mut QueuePair<Srd, Rts, Writing>,
    to: wr::Destination,
    data: Buf,
    at: RemoteSlice<RemoteWrite>,
) {
    qp.post_send(wr::RdmaWriteWithImm::new(data, at.write(), 7).to(to)).unwrap();
}

fn read(
    qp: &mut QueuePair<Srd, Rts, Reading>,
    to: wr::Destination,
    data: Buf,
    at: RemoteSlice<RemoteRead>,
) {
    qp.post_send(wr::RdmaRead::new(data, at.read()).to(to)).unwrap();
}
