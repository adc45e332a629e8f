// Proves R27.7, efadv_create_qp_ex(3): a queue pair is created for RDMA WRITE by name.
// Enforced by `Writes`.
use proverbs::{ext::extended_posting::ExtendedPosting, prelude::*};

profile! { Reading { posting: ExtendedPosting<Srd> } }

fn prepared(
    qp: &mut QueuePair<Srd, Rts, Reading>,
    write: &mut wr::Prepared<wr::RdmaWrite, wr::Placeholder, wr::Datagram>,
    data: Buf,
) {
    qp.post_prepared(write, data).unwrap();
}

fn prepared_inline(
    qp: &mut QueuePair<Srd, Rts, Reading>,
    write: &mut wr::Prepared<wr::RdmaWrite, [u8; 8], wr::Datagram>,
) {
    qp.post_prepared_inline(write).unwrap();
}

fn main() {}

// A prepared inline WRITE needs an SRD queue pair created for WRITEs, so it calls no null
// pointer.
