//! Every work request completes: the buffer goes to the device, and comes back with its completion.

#![forbid(unsafe_code)]

use std::hint::black_box;

use field::{Api, Held, Work};
use proverbs::memory::ToWrite;
use proverbs::prelude::*;

use crate::Ground;

pub struct Form {
    qp: QueuePair<Rc, Rts>,
    cq: CompletionQueue,
    at: RemoteSpan<ToWrite>,
    bufs: [Option<Buf>; 16],
}

impl Form {
    pub fn new(ground: &Ground) -> Self {
        let cq = ground.cq();
        let qp = ground.connect(&cq);
        let bufs = std::array::from_fn(|_| ground.pool.take());
        Form { qp, cq, at: crate::remote(), bufs }
    }
}

impl Api for Form {
    const CRATE: &'static str = "proverbs";
    const FORM: &'static str = "owned";
    const SIGNAL_ALL: bool = true;
    const HELD: Held = Held {
        lifetime: "type",
        range: "type",
        transport: "type",
        state: "type",
        overrun: "run",
        refused: "run",
        note: "the buffer comes back with its completion, or in the error",
    };
    const OFFERS: &'static [Work] =
        &[Work::Post, Work::Chain4, Work::Recv, Work::Poll1, Work::Poll16, Work::Cycle];

    #[inline(always)]
    fn post(&mut self) -> bool {
        let Some(buf) = self.bufs[0].take() else { return false };
        self.qp.post_send(wr::RdmaWrite::new(buf, self.at)).is_ok()
    }

    #[inline(always)]
    fn chain4(&mut self) -> bool {
        let [Some(a), Some(b), Some(c), Some(d)] = [0, 1, 2, 3].map(|i: usize| self.bufs[i].take())
        else {
            return false;
        };
        let posted = post_send!(
            self.qp,
            [
                wr::RdmaWrite::new(a, self.at),
                wr::RdmaWrite::new(b, self.at),
                wr::RdmaWrite::new(c, self.at),
                wr::RdmaWrite::new(d, self.at),
            ]
        );
        posted.is_ok()
    }

    #[inline(always)]
    fn recv(&mut self) -> bool {
        let Some(buf) = self.bufs[0].take() else { return false };
        self.qp.post_recv(wr::Recv::new(buf)).is_ok()
    }

    #[inline(always)]
    fn poll1(&mut self) -> bool {
        let Ok(Some(completion)) = self.cq.poll_one() else { return false };
        let is_ok = completion.status().is_ok();
        self.bufs[0] = completion.into_entry();
        is_ok
    }

    #[inline(always)]
    fn poll16(&mut self) -> bool {
        let Ok(completions) = self.cq.poll() else { return false };
        let mut all_ok = true;
        for (completion, buf) in completions.zip(&mut self.bufs) {
            all_ok &= completion.status().is_ok();
            *buf = completion.into_entry();
        }
        all_ok
    }

    #[inline(always)]
    fn cycle(&mut self) -> bool {
        self.post() && self.poll1()
    }

    fn post_before(&mut self, n: usize) -> bool {
        let all = self.bufs[..n].iter_mut().filter_map(Option::take);
        let mut posts = all.map(|buf| self.qp.post_send(wr::RdmaWrite::new(buf, self.at)).is_ok());
        posts.all(black_box)
    }

    fn restore(&mut self) {
        while let Ok(Some(completion)) = self.cq.poll_one() {
            if let Some(empty) = self.bufs.iter_mut().find(|buf| buf.is_none()) {
                *empty = completion.into_entry();
            }
        }
    }
}
