// R27.4, efadv_create_qp_ex(3): the legal twin of the test of this name.
use proverbs::ext::extended_posting::ExtendedPosting;
use proverbs::prelude::*;

profile! { Spread { posting: ExtendedPosting<(Srd, wr::RdmaWrite)> } }

type Qp = QueuePair<Srd, Rts, Spread>;

fn read_before(qp: &mut Qp, to: wr::Destination, at: RemoteSlice<RemoteReadWrite>) {
    let write = wr::RdmaWrite::inline(b"written", at.write()).to(to);
    post_send!(qp, [wr::RdmaRead::new(wr::Empty, at.read()).to(to), write]).unwrap();
}

fn two_behind_what_tells(qp: &mut Qp, to: wr::Destination, at: RemoteSlice<RemoteWrite>) {
    let write = || wr::RdmaWrite::inline(b"written", at.write()).to(to);
    let told = wr::RdmaWriteWithImm::new(wr::Empty, at.write(), 7).to(to);
    post_send!(qp, [told, write(), write()]).unwrap();
}
