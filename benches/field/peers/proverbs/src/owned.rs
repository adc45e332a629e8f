//! Every work request completes: the buffer goes to the device, and comes back with its completion.

#![forbid(unsafe_code)]

use std::hint::black_box;

use field::{Api, Done, Held, LEN, PAYLOAD, ROUNDS, Work, length};
use proverbs::memory::ToWrite;
use proverbs::prelude::*;

use crate::Ground;

pub struct Form {
    pub qp: QueuePair<Rc, Rts>,
    pub cq: CompletionQueue,
    pub at: RemoteSpan<ToWrite>,
    pub bufs: [Option<Buf>; 16],
}

impl Form {
    pub fn new(ground: &Ground) -> Self {
        let cq = ground.cq();
        let qp = ground.connect(&cq);
        let bufs = std::array::from_fn(|_| ground.pool.take());
        Form { qp, cq, at: crate::remote(), bufs }
    }

    /// One WRITE after the other; a buffer is prepared before its post.
    #[inline(always)]
    fn writes(&mut self, prepare: impl Fn(usize, &mut Buf)) -> Done {
        let mut spare = self.bufs[0].take();
        for round in 0..ROUNDS {
            let mut buf = spare.take().ok_or("no buffer")?;
            prepare(round, &mut buf);
            self.qp.post_send(wr::RdmaWrite::new(buf, self.at))?;
            for completion in self.cq.poll()? {
                completion.status()?;
                spare = completion.into_entry();
            }
        }
        spare.as_mut().ok_or("no buffer")?.set_len(LEN);
        self.bufs[0] = spare;
        Ok(())
    }

    #[inline(always)]
    fn inlines(&mut self) -> Done {
        for _ in 0..ROUNDS {
            self.qp.post_send(wr::Send::inline(&PAYLOAD))?;
            for completion in self.cq.poll()? {
                completion.status()?;
            }
        }
        Ok(())
    }

    #[inline(always)]
    fn answers(&mut self, items: usize) -> Done {
        let mut done = 0;
        while done < items {
            for completion in self.cq.poll()? {
                completion.status()?;
                let arrived = completion.byte_len();
                let mut buf = completion.into_entry().ok_or("no buffer")?;
                if let Some(len) = arrived {
                    buf.set_len(len as usize);
                    self.qp.post_send(wr::Send::new(buf))?;
                } else {
                    self.qp.post_recv(wr::Recv::new(buf))?;
                }
                done += 1;
            }
        }
        Ok(())
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
    const OFFERS: &'static [Work] = &[
        Work::Post,
        Work::Chain4,
        Work::Recv,
        Work::Poll1,
        Work::Poll16,
        Work::Cycle,
        Work::Loop,
        Work::Length,
        Work::Inline,
        Work::Echo,
        Work::Echo8,
    ];

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

    #[inline(always)]
    fn write_loop(&mut self) -> bool {
        self.writes(|_, _| ()).is_ok()
    }

    #[inline(always)]
    fn lengths(&mut self) -> bool {
        self.writes(|round, buf| buf.set_len(length(round))).is_ok()
    }

    #[inline(always)]
    fn inline(&mut self) -> bool {
        self.inlines().is_ok()
    }

    #[inline(always)]
    fn echoes(&mut self, items: usize) -> bool {
        self.answers(items).is_ok()
    }

    fn receive_before(&mut self, n: usize) -> bool {
        let mut all = self.bufs[..n].iter_mut().map(Option::take);
        all.all(|buf| buf.is_some_and(|buf| self.qp.post_recv(wr::Recv::new(buf)).is_ok()))
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
