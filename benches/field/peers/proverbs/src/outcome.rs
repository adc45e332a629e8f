//! The same queue pair, its completions sorted by `outcome`: the programs as README has them.

#![forbid(unsafe_code)]

use std::error::Error;

use field::{Api, Done, Held, LEN, PAYLOAD, ROUNDS, Work, length};
use proverbs::prelude::*;

use crate::owned;

pub struct Form(pub owned::Form);

/// What a program does with the outcomes that it does not expect.
#[cold]
#[inline(never)]
fn unexpected(outcome: Outcome<'_, Buf>) -> Box<dyn Error> {
    format!("not what was posted: {outcome:?}").into()
}

impl Form {
    /// README's loop; a buffer is prepared before its post.
    #[inline(always)]
    fn writes(&mut self, prepare: impl Fn(usize, &mut Buf)) -> Done {
        let mut spare = self.0.bufs[0].take();
        for round in 0..ROUNDS {
            let mut buf = spare.take().ok_or("no buffer")?;
            prepare(round, &mut buf);
            self.0.qp.post_send(wr::RdmaWrite::new(buf, self.0.at))?;
            for completion in self.0.cq.poll()? {
                match completion.outcome() {
                    Outcome::Sent(sent) => spare = sent.entry,
                    outcome => return Err(unexpected(outcome)),
                }
            }
        }
        spare.as_mut().ok_or("no buffer")?.set_len(LEN);
        self.0.bufs[0] = spare;
        Ok(())
    }

    #[inline(always)]
    fn inlines(&mut self) -> Done {
        for _ in 0..ROUNDS {
            self.0.qp.post_send(wr::Send::inline(&PAYLOAD))?;
            for completion in self.0.cq.poll()? {
                match completion.outcome() {
                    Outcome::Sent(_) => (),
                    outcome => return Err(unexpected(outcome)),
                }
            }
        }
        Ok(())
    }

    #[inline(always)]
    fn answers(&mut self, items: usize) -> Done {
        let mut done = 0;
        while done < items {
            for completion in self.0.cq.poll()? {
                match completion.outcome() {
                    Outcome::Received(message) => {
                        self.0.qp.post_send(wr::Send::new(message.entry.ok_or("no buffer")?))?;
                    }
                    Outcome::Sent(sent) => {
                        self.0.qp.post_recv(wr::Recv::new(sent.entry.ok_or("no buffer")?))?
                    }
                    outcome => return Err(unexpected(outcome)),
                }
                done += 1;
            }
        }
        Ok(())
    }
}

impl Api for Form {
    const CRATE: &'static str = "proverbs";
    const FORM: &'static str = "outcome";
    const SIGNAL_ALL: bool = true;
    const HELD: Held =
        Held { note: "as owned, its completions sorted by kind", ..owned::Form::HELD };
    const OFFERS: &'static [Work] =
        &[Work::Loop, Work::Length, Work::Inline, Work::Echo, Work::Echo8];

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
        self.0.receive_before(n)
    }

    fn restore(&mut self) {
        self.0.restore();
    }
}
