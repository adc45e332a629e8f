// Proves R25.2, ibv_wr_post(3): FLUSH and ATOMIC_WRITE are of queue pairs created for them.
// Enforced by `CreatedFor` and `PostOn`.
use proverbs::memory::{RemoteFlush, WriteCell};
use proverbs::prelude::*;

profile! { Direct { posting: ExtendedPosting } }
profile! { Flushing { posting: ExtendedPosting<wr::Flush> } }

fn ordinary(qp: &mut QueuePair<Rc, Rts>, what: RemoteFlush) {
    qp.post_send(wr::Flush::new(what)).unwrap();
}

fn extended(qp: &mut QueuePair<Rc, Rts, Direct>, what: RemoteFlush) {
    post_send!(qp, [wr::Flush::new(what)]).unwrap();
}

fn other(qp: &mut QueuePair<Rc, Rts, Flushing>, cell: WriteCell) {
    qp.post_send(wr::AtomicWrite::new(cell, [0; 8])).unwrap();
}

fn unreliable(qp: &mut QueuePair<Uc, Rts, Flushing>, what: RemoteFlush) {
    qp.post_send(wr::Flush::new(what)).unwrap();
}

fn main() {}
