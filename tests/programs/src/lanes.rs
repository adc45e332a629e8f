//! A lane, from creation to destruction: its members stay on the calling thread.

use proverbs::device::Lane;
use proverbs::prelude::*;

use crate::world::{DEPTH, World};

profile! { Fast { threads: InLane } }

impl World {
    /// Makes a lane with a queue pair, moves that to ERR with work outstanding, and drops the
    /// objects in one of the orders.
    pub fn lane(&self, pd: &ProtectionDomain, order: u8) {
        let Some(lane) = self.made(pd.alloc_lane()) else { return };
        let Some(cq) = self.made(lane.create_cq::<Buf>(64)) else { return };
        if !lane.has_thread_domain() && self.made(pd.alloc_lane()).is_some() && order == 0 {
            println!("a lane with locks, single-threaded: {}", cq.is_single_threaded());
        }
        let Some(qp) = self.made(lane.create_qp::<Rc, Fast>(&cq, &cq, DEPTH)) else { return };
        let init = ConnectedInit { pkey_index: 0, port: 1, access: QpAccess::all() };
        let Ok(mut qp) = qp.modify(init) else { return };
        let _ = qp.post_recv(wr::Recv::empty());
        drop_in(order, lane, cq, qp);
    }
}

fn drop_in(
    order: u8,
    lane: Lane,
    mut cq: CompletionQueue<Buf, InLane>,
    qp: QueuePair<Rc, Init, Fast>,
) {
    match order {
        0 => drop((lane, cq, qp)),
        1 => drop((qp, cq, lane)),
        2 => drop((cq, qp, lane)),
        _ => {
            let ended = qp.to_error();
            while matches!(cq.poll_one(), Ok(Some(_))) {}
            drop((lane, ended, cq));
        }
    }
}
