// Proves R1.1, R4.2, ibv_post_send(3): `settle` posts a WRITE of nothing, and has its bounds.
// Enforced by `CanPostSend`, `LeavesUnsignaled`, `PostOn<T>` and `CreatedFor`.
use proverbs::{ext::extended_posting::ExtendedPosting, prelude::*};

profile! { Quiet { signaling: Selective } }
profile! { Direct { signaling: Selective, posting: ExtendedPosting<Srd> } }

fn early(qp: &mut QueuePair<Rc, Rtr, Quiet>) {
    qp.settle().unwrap();
}

fn signaled(qp: &mut QueuePair<Rc, Rts, DefaultProfile>) {
    qp.settle().unwrap();
}

fn datagrams(qp: &mut QueuePair<Ud, Rts, Quiet>) {
    qp.settle().unwrap();
}

fn without_writes(qp: &mut QueuePair<Rc, Rts, Direct>) {
    qp.settle().unwrap();
}

fn main() {}
