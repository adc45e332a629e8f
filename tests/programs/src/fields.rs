//! A completion queue with extended polling, from creation to destruction.

use proverbs::ext::extended_polling::{CompletionQueueEx, CompletionTs, DlidPathBits};
use proverbs::prelude::*;

use crate::connect::Connects;
use crate::world::{DEPTH, World};

impl World {
    /// Makes such a queue with a queue pair on it, moves that to ERR with buffers outstanding,
    /// polls some of them, and drops the objects in one of the orders.
    pub fn polls_fields(&self, context: &Context, pd: &ProtectionDomain, order: u8) {
        let clock = context.query_device_ex().ok().and_then(|attr| attr.clock());
        let timed = context.cq(64).fields::<CompletionTs>().create::<Buf>();
        if let (Ok(mut cq), Some(clock)) = (timed, clock) {
            let _ = cq.poll_one().map(|polled| polled.map(|(_, fields)| fields.completion_ts()));
            println!("a clock of {} kHz", clock.khz());
        }
        let asked = context.cq(64).fields::<DlidPathBits>().create::<Buf>();
        let Some(mut cq) = self.made(asked) else { return };
        let Some(pool) = self.made(pd.create_pool(4, 64)) else { return };
        let Some(qp) = self.made(pd.create_qp::<Rc, DefaultProfile>(&cq, &cq, DEPTH)) else {
            return;
        };
        let Some(mut qp) = Rc::init(qp) else { return };
        for _ in 0..3 {
            let Some(buf) = pool.take() else { break };
            let _ = qp.post_recv(wr::Recv::new(buf));
        }
        let ended = qp.to_error();
        let mut held = Vec::new();
        if let Ok(completions) = cq.poll() {
            // Completions that the iterator did not return come with the next poll.
            for (completion, fields) in completions.take(usize::from(order % 3)) {
                let _ = fields.dlid_path_bits();
                held.extend(completion.into_entry());
            }
        }
        match order {
            0 => drop((ended, cq, held, pool)),
            1 => drop((cq, ended, pool, held)),
            2 => drop((pool, held, ended, cq)),
            _ => end(cq, ended.ok()),
        }
    }
}

fn end(mut cq: CompletionQueueEx<DlidPathBits>, qp: Option<QueuePair<Rc, state::Err>>) {
    while matches!(cq.poll_one(), Ok(Some(_))) {}
    drop(qp);
    if let Err(refused) = cq.destroy() {
        drop(refused.into_object());
    }
}
