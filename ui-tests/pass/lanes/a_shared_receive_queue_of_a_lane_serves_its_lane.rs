// R17.9, ibv_alloc_td(3): the legal twin of the test of this name.
use proverbs::prelude::*;

profile! { Served { receive: SharedRq, threads: InLane } }

fn of_one_lane(
    lane: &proverbs::device::Lane,
    cq: &CompletionQueue<Buf, InLane>,
    srq: &SharedReceiveQueue<Rc, Buf, proverbs::qp::Max<1>, InLane>,
) {
    let _ = lane.create_qp::<Rc, Served>(cq, cq, Depth::on_srq(4, srq));
}
