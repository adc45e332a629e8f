// Proves R27.4, efadv_create_qp_ex(3): only WRITEs follow a WRITE in one post.
// Enforced by `MayFollow`.
use proverbs::{ext::extended_posting::ExtendedPosting, prelude::*};

profile! { Spread { posting: ExtendedPosting<(Srd, wr::RdmaWrite)> } }

type Qp = QueuePair<Srd, Rts, Spread>;

fn read_behind(qp: &mut Qp, to: wr::Destination, at: RemoteSlice<RemoteReadWrite>) {
    let write = wr::RdmaWrite::inline(b"written", at.write()).to(to);
    post_send!(qp, [write, wr::RdmaRead::new(wr::Empty, at.read()).to(to)]).unwrap();
}

fn told_behind_two(qp: &mut Qp, to: wr::Destination, at: RemoteSlice<RemoteWrite>) {
    let write = || wr::RdmaWrite::inline(b"written", at.write()).to(to);
    let told = wr::RdmaWriteWithImm::new(wr::Empty, at.write(), 7).to(to);
    post_send!(qp, [write(), write(), told]).unwrap();
}

fn main() {}
