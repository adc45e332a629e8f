// R11.1, ibv_post_send(3): the legal twin of the test of this name.
use proverbs::prelude::*;

profile! { Booked { signaling: Selective } }

fn list(qp: &mut QueuePair<Rc, Rts, Booked>, data: Buf) {
    let _ = post_send!(qp, [wr::Send::new(data)], unsignaled).unwrap();
}

fn method(qp: &mut QueuePair<Rc, Rts, Booked>, data: Buf) {
    let _ = qp.post_send_unsignaled(wr::Send::new(data)).unwrap();
}
