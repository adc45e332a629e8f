//! The `unsafe` path: the caller's wr_id and the caller's books.

use std::hint::black_box;

use field::{Api, Held, LEN, Work};
use proverbs::memory::{Raw, ToWrite};
use proverbs::prelude::*;

use crate::Ground;

profile! { Caller { entry: Raw } }

pub struct Form {
    qp: QueuePair<Rc, Rts, Caller>,
    cq: CompletionQueue<Raw>,
    at: RemoteSpan<ToWrite>,
    piece: wr::Piece<'static>,
}

impl Form {
    pub fn new(ground: &Ground) -> Self {
        let cq = ground.cq();
        let qp = ground.connect(&cq);
        let region = ground.pd.register::<RemoteAll>(LEN).expect("a region");
        let piece = wr::Piece::new(Box::leak(Box::new(region)), 0..LEN).expect("a piece");
        Form { qp, cq, at: crate::remote(), piece }
    }
}

impl Api for Form {
    const CRATE: &'static str = "proverbs";
    const FORM: &'static str = "unchecked";
    const SIGNAL_ALL: bool = true;
    const HELD: Held = Held {
        lifetime: "unsafe",
        range: "run",
        transport: "type",
        state: "type",
        overrun: "unsafe",
        refused: "run",
        note: "for those who keep their own books",
    };
    const OFFERS: &'static [Work] =
        &[Work::Post, Work::Recv, Work::Poll1, Work::Poll16, Work::Cycle];

    #[inline(always)]
    fn post(&mut self) -> bool {
        let wr = wr::RdmaWrite::new(wr::Sge::new(1, [self.piece]), self.at);
        // SAFETY: the region lives as long as the process.
        unsafe { self.qp.post_send_unchecked(wr) }.is_ok()
    }

    #[inline(always)]
    fn recv(&mut self) -> bool {
        let wr = wr::Recv::new(wr::Sge::new(1, [self.piece]));
        // SAFETY: the region lives as long as the process, and the stub writes nothing.
        unsafe { self.qp.post_recv_unchecked(wr) }.is_ok()
    }

    #[inline(always)]
    fn poll1(&mut self) -> bool {
        let Ok(Some(completion)) = self.cq.poll_one() else { return false };
        black_box(completion.raw_wr_id());
        completion.status().is_ok()
    }

    #[inline(always)]
    fn poll16(&mut self) -> bool {
        let Ok(mut completions) = self.cq.poll() else { return false };
        completions.all(|completion| {
            black_box(completion.raw_wr_id());
            completion.status().is_ok()
        })
    }

    #[inline(always)]
    fn cycle(&mut self) -> bool {
        self.post() && self.poll1()
    }
}
