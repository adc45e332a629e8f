// R11.2, ibv_post_recv(3): the legal twin of ui-tests/raw/no_safe_list_of_receives_on_a_raw_queue_pair.rs.
use proverbs::prelude::*;

fn list(qp: &mut QueuePair<Rc, Rts>, data: Buf) {
    post_recv!(qp, [wr::Recv::new(data)]).unwrap();
}
