// R17.9, ibv_create_cq_ex(3): the legal twin of the test of this name.
use proverbs::prelude::*;

profile! { Fast { threads: InLane } }

fn of_one_lane(lane: &proverbs::device::Lane) -> Result<(), proverbs::Error> {
    let cq = &lane.create_cq(16)?;
    let depth = Depth { send: 4, recv: 4 };
    let _ = lane.create_qp::<Rc, Fast>(cq, cq, depth)?;
    Ok(())
}
