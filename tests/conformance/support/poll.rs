//! Polling until the expected completions have arrived.

use std::fmt::Debug;

use proverbs::completion::{Direction, Failed, Received, Sent, UdReceived};
use proverbs::memory::Owned;
use proverbs::prelude::*;
use proverbs::qp::{Drain, Transition};
use proverbs::state::State;
use proverbs::transport::Transport;

use super::device::Device;

/// A completion that no longer borrows its queue.
#[derive(Debug)]
pub enum Done<E> {
    Sent(Sent<E>),
    Received(Received<E>),
    Datagram(UdReceived<E>),
    Failed(Failed<E>),
}

impl<E: Debug> Done<E> {
    #[track_caller]
    pub fn sent(self) -> Sent<E> {
        match self {
            Done::Sent(sent) => sent,
            other => panic!("{other:?} is not a sent work request"),
        }
    }

    #[track_caller]
    pub fn received(self) -> Received<E> {
        match self {
            Done::Received(received) => received,
            other => panic!("{other:?} is not an arrival on RC or UC"),
        }
    }

    #[track_caller]
    pub fn datagram(self) -> UdReceived<E> {
        match self {
            Done::Datagram(received) => received,
            other => panic!("{other:?} is not an arrival on UD"),
        }
    }

    /// The failure. Checks its direction and status.
    #[track_caller]
    pub fn failed(self, direction: Direction, status: WcStatus) -> Failed<E> {
        match self {
            Done::Failed(failed) => {
                assert_eq!((failed.direction, failed.error.status), (direction, status));
                failed
            }
            other => panic!("{other:?} is not a failure"),
        }
    }

    /// The entry of a flushed work request.
    #[track_caller]
    pub fn flushed(self, direction: Direction) -> Option<E> {
        self.failed(direction, WcStatus::WrFlush).entry
    }
}

/// The next completion of a queue pair that was destroyed or reset, if it left any.
#[track_caller]
pub fn left_behind<E: Owned + Debug>(dev: &Device, cq: &mut CompletionQueue<E>) -> Option<Done<E>> {
    if dev.takes_completions_along() == Some(false) {
        return Some(poll(dev, cq, 1).remove(0));
    }
    let left = match cq.poll_one().unwrap().map(Completion::outcome)? {
        Outcome::Received(received) => Done::Received(received),
        Outcome::Failed(failed) => Done::Failed(failed),
        _ => panic!("a receive of RC"),
    };
    assert_eq!(dev.takes_completions_along(), None);
    Some(left)
}

/// The next `n` completions, none of them selectively signaled.
#[track_caller]
pub fn poll<E: Owned + Debug>(dev: &Device, cq: &mut CompletionQueue<E>, n: usize) -> Vec<Done<E>> {
    let mut done = Vec::new();
    let mut deadline = dev.deadline(&format!("{n} completions"));
    while done.len() < n {
        match cq.poll_one().unwrap().map(Completion::outcome) {
            None => deadline.tick(&done),
            Some(Outcome::Sent(sent)) => done.push(Done::Sent(sent)),
            Some(Outcome::Received(received)) => done.push(Done::Received(received)),
            Some(Outcome::Datagram(received)) => done.push(Done::Datagram(received)),
            Some(Outcome::Failed(failed)) => done.push(Done::Failed(failed)),
            Some(Outcome::Selective(_)) => panic!("a completion of a ring; so far: {done:?}"),
        }
    }
    done
}

/// A completion of a ring: its status, and the entries that it released.
pub type Ringed<E> = (Result<(), WcStatus>, Vec<E>);

/// The next `n` completions, all of `qp`'s ring: status and released entries of each.
#[track_caller]
pub fn complete<T, S, P>(
    dev: &Device,
    cq: &mut CompletionQueue<P::Entry>,
    qp: &mut QueuePair<T, S, P>,
    n: usize,
) -> Vec<Ringed<P::Entry>>
where
    T: Transport,
    S: State,
    P: Profile<Signaling = Selective>,
    P::Entry: Owned + Debug,
{
    let mut done = Vec::new();
    let mut deadline = dev.deadline(&format!("{n} completions of the ring"));
    while done.len() < n {
        match cq.poll_one().unwrap().map(Completion::outcome) {
            None => deadline.tick(&done),
            Some(Outcome::Selective(completion)) => {
                let completed = qp.complete(completion).expect("a completion of this queue pair");
                let status = completed.status.map_err(|error| error.status);
                done.push((status, completed.released.collect()));
            }
            Some(_) => panic!("not a completion of a ring; so far: {done:?}"),
        }
    }
    done
}

/// Polls until a poll finds nothing, and drops the completions. Returns their number.
pub fn poll_empty<E: Owned>(cq: &mut CompletionQueue<E>) -> usize {
    let mut count = 0;
    while let Some(completion) = cq.poll_one().unwrap() {
        drop(completion);
        count += 1;
    }
    count
}

/// Stops the send queue, and waits until it has stopped. Before that no other transition is legal.
#[track_caller]
pub fn stop<T, P>(dev: &Device, qp: QueuePair<T, Rts, P>) -> QueuePair<T, Sqd, P>
where
    T: Transport,
    P: Profile,
    Drain: Transition<T, Rts, P, To = Draining>,
{
    drained(dev, qp.modify(Drain { notify: false }).unwrap())
}

/// Waits until the send queue has drained.
#[track_caller]
#[allow(dead_code)] // other suites change nothing in SQD
pub fn drained<T, P>(dev: &Device, mut qp: QueuePair<T, Draining, P>) -> QueuePair<T, Sqd, P>
where
    T: Transport,
    P: Profile,
{
    let mut deadline = dev.deadline("the send queue has drained");
    loop {
        match qp.into_sqd() {
            Ok(qp) => return qp,
            Err(refused) => {
                assert_eq!(refused.error.errno(), Some(11), "{refused}");
                qp = refused.into_object();
            }
        }
        deadline.tick(&());
    }
}

/// Waits for a state that a device reaches by itself.
#[track_caller]
pub fn until(dev: &Device, what: &str, mut is: impl FnMut() -> bool) {
    let mut deadline = dev.deadline(what);
    while !is() {
        deadline.tick(&());
    }
}

/// Waits until `read` returns these bytes. On iWARP a WRITE completes before its bytes arrive
/// (R24.12).
pub fn arrives(dev: &Device, bytes: &[u8], read: impl Fn(&mut [u8])) {
    let mut now = vec![0; bytes.len()];
    until(dev, "the bytes arrive", || {
        read(&mut now);
        now == bytes
    });
}
