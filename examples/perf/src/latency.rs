//! Latency: one exchange at a time. For SEND and WRITE, the latency is half of a ping-pong. READ
//! and atomics are a round trip by themselves.

use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use proverbs::transport::Transport;

use crate::Result;
use crate::connect::Issues;
use crate::end::End;
use crate::options::{Options, Verb};
use crate::work::{Payload, Work};

/// Runs `-n` exchanges, and returns their times. For ping-pongs, the end that does not start has
/// one less. For READs and atomics, only the end that issues them has times.
pub fn exchange<T: Transport, W: Work<T>>(
    end: &mut End<T, W::Issues>,
    work: &W,
    options: &Options,
    starts: bool,
    size: usize,
    inline: bool,
    bar: &ProgressBar,
) -> Result<Vec<Duration>> {
    let cq_mod = options.cq_mod();
    let step = (options.iters / 50).max(1);
    let mut samples = Vec::with_capacity(options.iters as usize);
    let mut message = vec![0; if inline { size } else { 0 }];
    let arrived = end.received;
    let mut sent: Option<Instant> = None;
    for number in 1..=options.iters {
        let signaled = number % cq_mod == 0 || number == options.iters;
        let mark = mark(number);
        let mut send = |end: &mut End<T, W::Issues>| -> Result<()> {
            while end.qp.send_room() == 0 {
                end.poll()?;
            }
            let payload = if inline {
                message[size - 1] = mark;
                Payload::Inline(&message)
            } else {
                let mut buf = end.buffer(size)?;
                buf[size - 1] = mark;
                Payload::Buf(buf)
            };
            work.post(&mut end.qp, payload, signaled)
        };
        let wait = |end: &mut End<T, W::Issues>| match options.verb {
            Verb::Write => written(end, size, mark),
            _ => {
                while end.received - arrived < number.into() {
                    end.poll()?;
                }
                Ok(())
            }
        };
        match (options.verb, starts) {
            (Verb::Send | Verb::Write, true) => {
                let start = Instant::now();
                send(end)?;
                wait(end)?;
                samples.push(start.elapsed() / 2);
            }
            (Verb::Send | Verb::Write, false) => {
                wait(end)?;
                samples.extend(sent.map(|sent| sent.elapsed() / 2));
                sent = Some(Instant::now());
                send(end)?;
            }
            (_, true) => {
                let buf = end.buffer(size)?;
                let start = Instant::now();
                work.post(&mut end.qp, Payload::Buf(buf), true)?;
                end.settle()?;
                samples.push(start.elapsed());
            }
            // The device replies.
            (_, false) => {}
        }
        if number % step == 0 {
            bar.set_position(number.into());
        }
    }
    end.settle()?;
    Ok(samples)
}

/// The last byte of the `number`th message. It differs from the message before, and the first is
/// not 0. The same as in perftest.
fn mark(number: u32) -> u8 {
    number as u8
}

/// Waits for the last byte of the peer's WRITE of `size` bytes. Devices write the last byte last,
/// although no rule requires it; perftest relies on it too.
fn written<T: Transport, R: Issues>(end: &mut End<T, R>, size: usize, mark: u8) -> Result<()> {
    let mut last = [0];
    let mut looks = 0u32;
    loop {
        end.open.read_at(size - 1, &mut last)?;
        if last[0] == mark {
            return Ok(());
        }
        looks = looks.wrapping_add(1);
        // Only the completion queue reports a failed WRITE. The loopback device works only inside
        // verbs.
        if end.local || looks % 1024 == 0 {
            end.poll()?;
        }
    }
}
