// R4.5, R6.7, ibv_post_send(3): the legal twin of the test of this name.
use proverbs::memory::{OpenBuf, ToRead};
use proverbs::prelude::*;

profile! { Mixed { entry: AnyBuf } }

fn method(qp: &mut QueuePair<Rc, Rts, Mixed>, buf: OpenBuf, at: RemoteSpan<ToRead>) {
    qp.post_send(wr::RdmaRead::new(buf, at)).unwrap();
}

fn in_a_list(qp: &mut QueuePair<Rc, Rts, Mixed>, buf: OpenBuf, at: RemoteSpan<ToRead>) {
    post_send!(qp, [wr::RdmaRead::new(buf, at)]).unwrap();
}
