// R25.2, ibv_wr_post(3): the legal twin of the test of this name.
use proverbs::memory::{RemoteFlush, WriteCell};
use proverbs::prelude::*;

profile! { Flushing { posting: ExtendedPosting<wr::Flush> } }
profile! { Logging { posting: ExtendedPosting<(wr::Flush, wr::AtomicWrite)> } }

fn flush(qp: &mut QueuePair<Rc, Rts, Flushing>, what: RemoteFlush) {
    qp.post_send(wr::Flush::new(what)).unwrap();
}

fn both(qp: &mut QueuePair<Rc, Rts, Logging>, what: RemoteFlush, cell: WriteCell) {
    post_send!(qp, [wr::Flush::new(what), wr::AtomicWrite::new(cell, [0; 8])]).unwrap();
}

fn main() {}
