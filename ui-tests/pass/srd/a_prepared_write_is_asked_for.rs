// R27.7, efadv_create_qp_ex(3): the legal twin of the test of this name.
use proverbs::ext::extended_posting::ExtendedPosting;
use proverbs::prelude::*;

profile! { Writing { posting: ExtendedPosting<(Srd, wr::RdmaWrite)> } }

fn prepared(
    qp: &mut QueuePair<Srd, Rts, Writing>,
    write: &mut wr::Prepared<wr::RdmaWrite, wr::Placeholder, wr::Datagram>,
    data: Buf,
) {
    qp.post_prepared(write, data).unwrap();
}

fn prepared_inline(
    qp: &mut QueuePair<Srd, Rts, Writing>,
    write: &mut wr::Prepared<wr::RdmaWrite, [u8; 8], wr::Datagram>,
) {
    qp.post_prepared_inline(write).unwrap();
}
