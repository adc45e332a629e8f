// Proves R25.2, ibv_wr_post(3): FLUSH and ATOMIC_WRITE are of queue pairs created for them.
// Enforced by `CreatedFor` and `PostOn`.
use proverbs::{ext::persistence::RemoteFlush, memory::WriteCell};
use proverbs::{ext::extended_posting::ExtendedPosting, prelude::*};

profile! { Direct { posting: ExtendedPosting } }
profile! { Flushing { posting: ExtendedPosting<ext::persistence::Flush> } }

fn ordinary(qp: &mut QueuePair<Rc, Rts>, what: RemoteFlush) {
    qp.post_send(ext::persistence::Flush::new(what)).unwrap();
}

fn extended(qp: &mut QueuePair<Rc, Rts, Direct>, what: RemoteFlush) {
    post_send!(qp, [ext::persistence::Flush::new(what)]).unwrap();
}

fn other(qp: &mut QueuePair<Rc, Rts, Flushing>, cell: WriteCell) {
    qp.post_send(ext::persistence::AtomicWrite::new(cell, [0; 8])).unwrap();
}

fn unreliable(qp: &mut QueuePair<Uc, Rts, Flushing>, what: RemoteFlush) {
    qp.post_send(ext::persistence::Flush::new(what)).unwrap();
}

fn main() {}
