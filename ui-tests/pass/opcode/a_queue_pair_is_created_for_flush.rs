// R25.2, ibv_wr_post(3): the legal twin of the test of this name.
use proverbs::ext::extended_posting::ExtendedPosting;
use proverbs::ext::persistence::RemoteFlush;
use proverbs::memory::WriteCell;
use proverbs::prelude::*;

profile! { Flushing { posting: ExtendedPosting<ext::persistence::Flush> } }
profile! { Logging { posting: ExtendedPosting<(ext::persistence::Flush, ext::persistence::AtomicWrite)> } }

fn flush(qp: &mut QueuePair<Rc, Rts, Flushing>, what: RemoteFlush) {
    qp.post_send(ext::persistence::Flush::new(what)).unwrap();
}

fn both(qp: &mut QueuePair<Rc, Rts, Logging>, what: RemoteFlush, cell: WriteCell) {
    post_send!(
        qp,
        [ext::persistence::Flush::new(what), ext::persistence::AtomicWrite::new(cell, [0; 8])]
    )
    .unwrap();
}

fn main() {}
