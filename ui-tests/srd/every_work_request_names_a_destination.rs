// Proves R27.2: every work request of SRD names its destination, and none is an atomic.
// Enforced by `Addressed<T>` and `PostOn<T>`.
use proverbs::{ext::extended_posting::ExtendedPosting, prelude::*};

profile! { Spread { posting: ExtendedPosting<(Srd, wr::RdmaWrite)> } }

fn sent(qp: &mut QueuePair<Srd, Rts, Spread>, buf: Buf) {
    qp.post_send(wr::Send::new(buf)).unwrap();
}

fn written(qp: &mut QueuePair<Srd, Rts, Spread>, buf: Buf, at: RemoteSlice<RemoteWrite>) {
    post_send!(qp, [wr::RdmaWriteWithImm::new(buf, at.write(), 7)]).unwrap();
}

fn added(
    qp: &mut QueuePair<Srd, Rts, Spread>,
    to: wr::Destination,
    buf: Buf,
    at: RemoteSlice<RemoteAtomic>,
) {
    qp.post_send(wr::FetchAndAdd::new(buf, at.atomic(0).unwrap(), 1).to(to)).unwrap();
}

fn main() {}
