//! Selective signaling: a ring keeps the buffers, and a completion releases all up to its own.

#![forbid(unsafe_code)]

use field::{Api, Held, Work};
use proverbs::memory::ToWrite;
use proverbs::prelude::*;

use crate::Ground;

profile! { Chosen { signaling: Selective } }

pub struct Form {
    qp: QueuePair<Rc, Rts, Chosen>,
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
    const FORM: &'static str = "selective";
    const CHAIN_COMPLETIONS: u32 = 1;
    const HELD: Held = Held {
        lifetime: "type",
        range: "type",
        transport: "type",
        state: "type",
        overrun: "run",
        refused: "run",
        note: "a chain completes once; that releases its buffers",
    };
    const OFFERS: &'static [Work] =
        &[Work::Post, Work::Chain4, Work::Recv, Work::Poll1, Work::Cycle];

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
        let Ok(done) = self.qp.complete(completion) else { return false };
        for (released, buf) in done.released.zip(&mut self.bufs) {
            *buf = Some(released);
        }
        done.status.is_ok()
    }

    #[inline(always)]
    fn cycle(&mut self) -> bool {
        self.post() && self.poll1()
    }

    fn restore(&mut self) {
        while let Ok(Some(completion)) = self.cq.poll_one() {
            let Form { qp, bufs, .. } = self;
            let empty = bufs.iter_mut().filter(|buf| buf.is_none());
            if !completion.is_selective() {
                empty.zip(completion.into_entry()).for_each(|(empty, buf)| *empty = Some(buf));
            } else if let Ok(done) = qp.complete(completion) {
                empty.zip(done.released).for_each(|(empty, buf)| *empty = Some(buf));
            }
        }
    }
}
