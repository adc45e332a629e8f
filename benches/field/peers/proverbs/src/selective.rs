//! Selective signaling: a ring keeps the buffers, and a completion releases all up to its own.

#![forbid(unsafe_code)]

use field::{Api, Done, Held, LEN, PAYLOAD, ROUNDS, Work, length};
use proverbs::memory::ToWrite;
use proverbs::prelude::*;
use proverbs::qp::Completed;

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

    /// One WRITE after the other; a buffer is prepared before its post.
    #[inline(always)]
    fn writes(&mut self, prepare: impl Fn(usize, &mut Buf)) -> Done {
        let mut spare = self.bufs[0].take();
        for round in 0..ROUNDS {
            let mut buf = spare.take().ok_or("no buffer")?;
            prepare(round, &mut buf);
            self.qp.post_send(wr::RdmaWrite::new(buf, self.at))?;
            for completion in self.cq.poll()? {
                let mut done = self.qp.complete(completion).map_err(|_| "of another queue pair")?;
                done.status?;
                spare = done.released.next();
            }
        }
        spare.as_mut().ok_or("no buffer")?.set_len(LEN);
        self.bufs[0] = spare;
        Ok(())
    }

    /// The last of a list completes, and speaks for all.
    #[inline(always)]
    fn chains(&mut self) -> Done {
        let [a, b, c, d] = [0, 1, 2, 3].map(|i: usize| self.bufs[i].take());
        let (Some(a), Some(b), Some(c), Some(d)) = (a, b, c, d) else {
            return Err("no buffer".into());
        };
        let mut bufs = [a, b, c, d];
        for _ in 0..ROUNDS {
            let [a, b, c, d] = bufs.map(|buf| wr::RdmaWrite::new(buf, self.at));
            post_send!(self.qp, [a, b, c, d])?;
            let completion = self.cq.poll_one()?.ok_or("no completion")?;
            let done = self.qp.complete(completion).map_err(|_| "of another queue pair")?;
            done.status?;
            bufs = done.released.array().map_err(|_| "others")?;
        }
        self.bufs.iter_mut().zip(bufs).for_each(|(slot, buf)| *slot = Some(buf));
        Ok(())
    }

    #[inline(always)]
    fn inlines(&mut self) -> Done {
        for _ in 0..ROUNDS {
            self.qp.post_send(wr::Send::inline(&PAYLOAD))?;
            for completion in self.cq.poll()? {
                self.qp.complete(completion).map_err(|_| "of another queue pair")?.status?;
            }
        }
        Ok(())
    }

    #[inline(always)]
    fn answers(&mut self, items: usize) -> Done {
        let mut done = 0;
        while done < items {
            for completion in self.cq.poll()? {
                if completion.is_selective() {
                    let Completed { status, released } =
                        self.qp.complete(completion).map_err(|_| "of another queue pair")?;
                    status?;
                    let [buf] = released.array().map_err(|_| "others")?;
                    self.qp.post_recv(wr::Recv::new(buf))?;
                } else {
                    completion.status()?;
                    let arrived = completion.byte_len().ok_or("no receive")?;
                    let mut buf = completion.into_entry().ok_or("no buffer")?;
                    buf.set_len(arrived as usize);
                    self.qp.post_send(wr::Send::new(buf))?;
                }
                done += 1;
            }
        }
        Ok(())
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
    const OFFERS: &'static [Work] = &[
        Work::Post,
        Work::Chain4,
        Work::Recv,
        Work::Poll1,
        Work::Cycle,
        Work::Loop,
        Work::Length,
        Work::Chain,
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

    #[inline(always)]
    fn write_loop(&mut self) -> bool {
        self.writes(|_, _| ()).is_ok()
    }

    #[inline(always)]
    fn lengths(&mut self) -> bool {
        self.writes(|round, buf| buf.set_len(length(round))).is_ok()
    }

    #[inline(always)]
    fn chain(&mut self) -> bool {
        self.chains().is_ok()
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
