// R17.9, ibv_alloc_td(3): the legal twin of ui-tests/lanes/a_shared_receive_queue_of_a_lane_serves_its_lane.rs.
use proverbs::prelude::*;

profile! { Served { receive: SharedRq, threads: InLane } }

fn of_one_lane(
    lane: &proverbs::device::Lane,
    cq: &CompletionQueue<Buf, InLane>,
    srq: &SharedReceiveQueue<Rc, Buf, proverbs::qp::Max<1>, InLane>,
) {
    let _ = lane.create_qp_on_srq::<Rc, Served, _>(cq, cq, srq, 4);
}
