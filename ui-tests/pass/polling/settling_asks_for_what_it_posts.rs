// R1.1, R4.2, ibv_post_send(3): the legal twin of the test of this name.
use proverbs::ext::extended_posting::ExtendedPosting;
use proverbs::prelude::*;

profile! { Quiet { signaling: Selective } }
profile! { Direct { signaling: Selective, posting: ExtendedPosting } }

fn early(qp: &mut QueuePair<Rc, Rts, Quiet>) {
    qp.settle().unwrap();
}

fn signaled(qp: &mut QueuePair<Rc, Rts, Quiet>) {
    qp.settle().unwrap();
}

fn datagrams(qp: &mut QueuePair<Uc, Rts, Quiet>) {
    qp.settle().unwrap();
}

fn without_writes(qp: &mut QueuePair<Rc, Rts, Direct>) {
    qp.settle().unwrap();
}
