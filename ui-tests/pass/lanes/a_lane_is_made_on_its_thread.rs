// R17.8, ibv_alloc_td(3): the legal twin of the test of this name.
use proverbs::prelude::*;

use proverbs::device::Lane;

fn elsewhere(pd: ProtectionDomain) {
    std::thread::spawn(move || -> Result<(), proverbs::Error> {
        let lane: Lane = pd.alloc_lane()?;
        let cq: CompletionQueue<Buf, InLane> = lane.create_cq(16)?;
        drop((lane, cq));
        Ok(())
    });
}
