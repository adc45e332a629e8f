//! Bandwidth and message rate: as many sends as may be outstanding, from the first post to the last
//! completion.

use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use proverbs::post::SendSlots;
use proverbs::transport::Transport;

use crate::Result;
use crate::connect::Issues;
use crate::end::End;
use crate::options::Options;
use crate::work::{MAX_LIST, Payload, Work};

/// The client: posts `-n` work requests of `size` bytes, `-l` a post, at most `-t` outstanding,
/// every `-Q`th signaled. Gives the time until all were completed.
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
            // Signaled are those that ask for it; one of them releases the others.
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

/// Which sends ask for a completion.
struct Signals {
    left: u32,
    cq_mod: u32,
    /// Sends after which the next post fits only once some have completed.
    most: u32,
    since: u32,
}

impl Signals {
    fn new(options: &Options) -> Signals {
        let most = options.tx_depth - options.post_list + 1;
        Signals { left: options.iters, cq_mod: options.cq_mod(), most, since: 0 }
    }

    /// Every `-Q`th, the very last, and the last of a post after which the next one would wait for
    /// ever.
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

/// The server of SENDs: receives until the client has sent all, or, where messages may be lost,
/// until `done`: the client says that it has. Gives how many arrived.
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
            // What the client sent has arrived by now, or is lost: there was nothing to take.
            if done_before {
                break;
            }
            done_before = done()?;
        }
    }
    Ok(end.received - before)
}
