//! Bandwidth and message rate, with the maximum number of outstanding sends, from the first post to
//! the last completion.

use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use proverbs::post::SendSlots;
use proverbs::transport::Transport;

use crate::Result;
use crate::connect::Issues;
use crate::end::End;
use crate::options::Options;
use crate::work::{MAX_LIST, Payload, Work};

/// The client: posts `-n` work requests of `size` bytes, `-l` per post, at most `-t` outstanding,
/// every `-Q`th signaled. Returns the time until all have completed.
pub fn client<T: Transport, W: Work<T>>(
    end: &mut End<T, W::Issues>,
    work: &W,
    options: &Options,
    size: usize,
    inline: Option<&[u8]>,
    bar: &ProgressBar,
) -> Result<Duration> {
    let iters = options.iters;
    let step = (iters / 50).max(1);
    let mut signals = Signals::new(options);
    let mut posted = 0;
    let start = Instant::now();
    while posted < iters {
        let count = options.post_list.min(iters - posted);
        while end.qp.send_room() < count as usize
            || (inline.is_none() && end.spare.len() < count as usize)
        {
            end.poll()?;
        }
        if count == 1 {
            end.post(work, size, inline, signals.next(true))?;
        } else {
            let mut slots = SendSlots::<MAX_LIST>::new();
            let mut list = end.qp.send_list(&mut slots);
            for number in 1..=count {
                let payload = match inline {
                    Some(bytes) => Payload::Inline(bytes),
                    None => {
                        let mut buf = end.spare.pop().ok_or("no spare buffer")?;
                        buf.set_len(size);
                        Payload::Buf(buf)
                    }
                };
                work.push(&mut list, payload, signals.next(number == count))?;
            }
            // Only work requests with the flag are signaled. Each of these releases the earlier
            // ones.
            drop(list.post_unsignaled()?);
        }
        if posted / step != (posted + count) / step {
            bar.set_position((posted + count).into());
        }
        posted += count;
    }
    end.settle()?;
    Ok(start.elapsed())
}

/// Selects the sends that are signaled.
struct Signals {
    left: u32,
    cq_mod: u32,
    /// The number of sends after which the next post needs a completion first.
    most: u32,
    since: u32,
}

impl Signals {
    fn new(options: &Options) -> Signals {
        let most = options.tx_depth - options.post_list + 1;
        Signals { left: options.iters, cq_mod: options.cq_mod(), most, since: 0 }
    }

    /// Every `-Q`th send, the last send, and the last send of a post if the next post would
    /// otherwise wait forever.
    fn next(&mut self, ends_post: bool) -> bool {
        self.left -= 1;
        self.since += 1;
        let signaled =
            self.since >= self.cq_mod || self.left == 0 || (ends_post && self.since >= self.most);
        if signaled {
            self.since = 0;
        }
        signaled
    }
}

/// The server of SENDs: receives until all messages have arrived. If messages can be lost, it
/// receives until `done`, when the client reports that it has sent all. Returns the number of
/// received messages.
pub fn receive<T: Transport, R: Issues>(
    end: &mut End<T, R>,
    expected: u64,
    mut done: impl FnMut() -> Result<bool>,
) -> Result<u64> {
    let before = end.received;
    let mut done_before = false;
    while end.received - before < expected {
        let seen = end.received;
        end.poll()?;
        if end.received == seen {
            // All messages have arrived by now or are lost, because there was nothing to take.
            if done_before {
                break;
            }
            done_before = done()?;
        }
    }
    Ok(end.received - before)
}
