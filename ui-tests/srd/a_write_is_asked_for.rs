// Proves R27.7, efadv_create_qp_ex(3): a queue pair is created for RDMA WRITE by name.
// Enforced by `Writes`.
use proverbs::{ext::extended_posting::ExtendedPosting, prelude::*};

profile! { Reading { posting: ExtendedPosting<Srd> } }
profile! { Sending { posting: ExtendedPosting<Srd>, initiator: NoReads } }

fn written(
    qp: &mut QueuePair<Srd, Rts, Reading>,
    to: wr::Destination,
    data: Buf,
    at: RemoteSlice<RemoteWrite>,
) {
    qp.post_send(wr::RdmaWrite::new(data, at.write()).to(to)).unwrap();
}

fn told(
    qp: &mut QueuePair<Srd, Rts, Reading>,
    to: wr::Destination,
    data: Buf,
    at: RemoteSlice<RemoteWrite>,
) {
    qp.post_send(wr::RdmaWriteWithImm::new(data, at.write(), 7).to(to)).unwrap();
}

fn read(
    qp: &mut QueuePair<Srd, Rts, Sending>,
    to: wr::Destination,
    data: Buf,
    at: RemoteSlice<RemoteRead>,
) {
    qp.post_send(wr::RdmaRead::new(data, at.read()).to(to)).unwrap();
}

fn main() {}
