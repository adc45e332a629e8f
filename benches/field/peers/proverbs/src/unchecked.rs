//! The `unsafe` path: the caller's wr_id and the caller's books.

use std::hint::black_box;

use field::{Api, BATCH, Done, Held, LEN, PAYLOAD, ROUNDS, Work, length};
use proverbs::memory::{Raw, ToWrite};
use proverbs::prelude::*;

use crate::Ground;

profile! { Caller { entry: Raw } }

pub struct Form {
    qp: QueuePair<Rc, Rts, Caller>,
    cq: CompletionQueue<Raw>,
    at: RemoteSpan<ToWrite>,
    region: &'static MemoryRegion<RemoteAll>,
    /// The buffers; a wr_id is the number of one.
    pieces: [wr::Piece<'static>; BATCH],
    payload: wr::Piece<'static>,
}

impl Form {
    pub fn new(ground: &Ground) -> Self {
        let cq = ground.cq();
        let qp = ground.connect(&cq);
        let end = BATCH * LEN;
        let region = ground.pd.register::<RemoteAll>(end + PAYLOAD.len()).expect("a region");
        region.write_at(end, &PAYLOAD).expect("there is room");
        let region: &'static _ = Box::leak(Box::new(region));
        let piece = |range| wr::Piece::new(region, range).expect("a piece");
        let pieces = std::array::from_fn(|i| piece(i * LEN..(i + 1) * LEN));
        let payload = piece(end..end + PAYLOAD.len());
        Form { qp, cq, at: crate::remote(), region, pieces, payload }
    }

    /// The wr_id of the one completion that is there.
    #[inline(always)]
    fn completed(&mut self) -> Done<u64> {
        let completion = self.cq.poll_one()?.ok_or("no completion")?;
        completion.status()?;
        Ok(completion.raw_wr_id())
    }

    #[inline(always)]
    fn writes(&mut self, piece: impl Fn(&Self, usize, usize) -> Done<wr::Piece<'static>>) -> Done {
        let mut id = 0;
        for round in 0..ROUNDS {
            let piece = piece(self, id as usize, round)?;
            let wr = wr::RdmaWrite::new(wr::Sge::new(id, [piece]), self.at);
            // SAFETY: the region lives as long as the process.
            unsafe { self.qp.post_send_unchecked(wr) }?;
            id = self.completed()?;
        }
        Ok(())
    }

    #[inline(always)]
    fn inlines(&mut self) -> Done {
        for _ in 0..ROUNDS {
            let wr = wr::Send::new(wr::Sge::new(0, [self.payload]).inline());
            // SAFETY: the region lives as long as the process.
            unsafe { self.qp.post_send_unchecked(wr) }?;
            self.completed()?;
        }
        Ok(())
    }

    #[inline(always)]
    fn answers(&mut self, items: usize) -> Done {
        let mut done = 0;
        while done < items {
            for completion in self.cq.poll()? {
                completion.status()?;
                let id = completion.raw_wr_id();
                if let Some(length) = completion.byte_len() {
                    let start = id as usize * LEN;
                    let piece = wr::Piece::new(self.region, start..start + length as usize)?;
                    let wr = wr::Send::new(wr::Sge::new(id, [piece]));
                    // SAFETY: the region lives as long as the process.
                    unsafe { self.qp.post_send_unchecked(wr) }?;
                } else {
                    let piece = *self.pieces.get(id as usize).ok_or("no such buffer")?;
                    let wr = wr::Recv::new(wr::Sge::new(id, [piece]));
                    // SAFETY: the region lives as long as the process.
                    unsafe { self.qp.post_recv_unchecked(wr) }?;
                }
                done += 1;
            }
        }
        Ok(())
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
    const OFFERS: &'static [Work] = &[
        Work::Post,
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
        let wr = wr::RdmaWrite::new(wr::Sge::new(1, [self.pieces[0]]), self.at);
        // SAFETY: the region lives as long as the process.
        unsafe { self.qp.post_send_unchecked(wr) }.is_ok()
    }

    #[inline(always)]
    fn recv(&mut self) -> bool {
        let wr = wr::Recv::new(wr::Sge::new(1, [self.pieces[0]]));
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

    #[inline(always)]
    fn write_loop(&mut self) -> bool {
        self.writes(|form, id, _| Ok(*form.pieces.get(id).ok_or("no such buffer")?)).is_ok()
    }

    #[inline(always)]
    fn lengths(&mut self) -> bool {
        let piece = |form: &Self, id: usize, round| {
            Ok(wr::Piece::new(form.region, id * LEN..id * LEN + length(round))?)
        };
        self.writes(piece).is_ok()
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
        (0..n).all(|id| {
            let wr = wr::Recv::new(wr::Sge::new(id as u64, [self.pieces[id]]));
            // SAFETY: the region lives as long as the process, and the stub writes nothing.
            unsafe { self.qp.post_recv_unchecked(wr) }.is_ok()
        })
    }
}
