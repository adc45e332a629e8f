//! Queue pairs.

use std::collections::VecDeque;
use std::time::Duration;

use crate::words::attributes::Attributes;
use crate::words::transport::Transport;
use crate::words::wr::{Recv, Send};
use crate::words::{Verb, limits};
use proverbs_sys::terms::bounded::{MinRnrTimer, Timeout};
use proverbs_sys::terms::state::QpState as Phase;
use proverbs_sys::types::{ibv_qp_cap, ibv_qp_state, ibv_wc_status as status, zeroed};

/// The state that a transition names.
pub(crate) fn phase(state: ibv_qp_state::Type) -> Verb<Phase> {
    Phase::from_c(state).ok_or(libc::EINVAL)
}

/// The limits and options of a queue pair, as asked for or as granted.
#[derive(Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) transport: Transport,
    pub(crate) send_cq: u32,
    pub(crate) recv_cq: u32,
    pub(crate) srq: Option<u32>,
    pub(crate) cap: ibv_qp_cap,
    pub(crate) sig_all: bool,
}

impl Shape {
    /// The shape of an XRC target, which has no queues.
    pub(crate) fn of_target() -> Shape {
        Shape {
            transport: Transport::XrcRecv,
            send_cq: 0,
            recv_cq: 0,
            srq: None,
            cap: zeroed(),
            sig_all: false,
        }
    }
}

pub(crate) struct Qp {
    pub(crate) device: u32,
    /// A target has one while it serves a message, as it has a shared receive queue.
    pub(crate) pd: u32,
    /// The XRC domain of a target.
    pub(crate) xrcd: Option<u32>,
    pub(crate) shape: Shape,
    pub(crate) phase: Phase,
    /// Counts the resets: completions from before a reset free no slots.
    pub(crate) generation: u32,
    pub(crate) attributes: Attributes,
    pub(crate) sends: VecDeque<Send>,
    pub(crate) recvs: VecDeque<Recv>,
    /// Send slots in use: queued, or done but not yet released by a polled completion (R9.7).
    pub(crate) send_slots: u32,
    /// Receive slots in use: posted, or on some devices done but not polled.
    pub(crate) recv_slots: u32,
    /// The number of sends done without a completion since the last completion.
    pub(crate) silent: u32,
    /// Set while the first send waits for another try.
    pub(crate) wait: Option<Wait>,
    /// The first run in which the queue pair may flush.
    pub(crate) flush_from: u64,
    /// Whether the first message arrived while it was in RTR.
    pub(crate) established: bool,
    /// Whether an event reports that the send queue has drained.
    pub(crate) tells_drained: bool,
    /// Whether its multicast sends are not looped back to it.
    pub(crate) blocks_loopback: bool,
    /// The enabled options of its connection.
    pub(crate) options: u32,
}

impl Qp {
    pub(crate) fn new(device: u32, pd: u32, xrcd: Option<u32>, shape: Shape) -> Qp {
        Qp {
            device,
            pd,
            xrcd,
            shape,
            phase: Phase::Reset,
            generation: 0,
            attributes: Attributes::default(),
            sends: VecDeque::new(),
            recvs: VecDeque::new(),
            send_slots: 0,
            recv_slots: 0,
            silent: 0,
            wait: None,
            flush_from: 0,
            established: false,
            tells_drained: false,
            blocks_loopback: false,
            options: limits::OPTIONS,
        }
    }

    /// Whether messages from the fabric are accepted.
    pub(crate) fn receives(&self) -> bool {
        matches!(self.phase, Phase::Rtr | Phase::Rts | Phase::Sqd | Phase::Sqe)
    }

    pub(crate) fn free_sends(&mut self, generation: u32, slots: u32) {
        if self.generation == generation {
            self.send_slots = self.send_slots.saturating_sub(slots);
        }
    }

    pub(crate) fn free_receive(&mut self, generation: u32) {
        if self.generation == generation {
            self.recv_slots = self.recv_slots.saturating_sub(1);
        }
    }

    /// Restores the initial state, except for options that a reset keeps.
    pub(crate) fn reset(&mut self) {
        let Qp { device, pd, xrcd, shape, blocks_loopback, options, .. } = *self;
        let generation = self.generation.wrapping_add(1);
        let new = Qp::new(device, pd, xrcd, shape);
        *self = Qp { generation, blocks_loopback, options, ..new };
    }
}

/// Until a test stops the clock, a retry timer expires after this many runs of the engine in which
/// nothing else happened.
pub(crate) const IDLE_RUNS: u32 = 100;

/// The `rnr_retry` that means "forever".
pub(crate) const ENDLESS: u8 = 7;

/// Why the first send of a queue is retried.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cause {
    /// The peer had no receive posted.
    NotReady,
    /// No answer came.
    Lost,
    /// The message is still in transit.
    Late,
}

#[derive(Clone, Copy)]
pub(crate) struct Wait {
    pub(crate) cause: Cause,
    /// Runs of the engine since the timer was started.
    pub(crate) idle: u32,
    /// Retries left; `None` if the timer never expires.
    pub(crate) left: Option<u8>,
    /// When the last retry is over, by a stopped clock.
    pub(crate) expires: Duration,
}

impl Wait {
    /// Without a timeout, a lost message is never sent again.
    pub(crate) fn is_hopeless(self) -> bool {
        self.cause == Cause::Lost && self.left.is_none()
    }

    /// When the send fails, by a stopped clock.
    pub(crate) fn expires(self) -> Option<Duration> {
        self.left.map(|_| self.expires)
    }

    /// The status of a send whose retries are used up.
    pub(crate) fn failure(self) -> Option<status::Type> {
        match self.cause {
            Cause::NotReady => Some(status::IBV_WC_RNR_RETRY_EXC_ERR),
            Cause::Lost => Some(status::IBV_WC_RETRY_EXC_ERR),
            Cause::Late => None,
        }
    }
}

impl Qp {
    /// Counts an idle run. Returns whether the last retry of the first send has expired.
    pub(crate) fn tick(&mut self) -> bool {
        let Some(wait) = &mut self.wait else { return false };
        let Some(left) = &mut wait.left else { return false };
        wait.idle += 1;
        if wait.idle < IDLE_RUNS {
            return false;
        }
        wait.idle = 0;
        match wait.cause {
            // A receiver that was not ready gets the first try, and one more for each retry.
            Cause::NotReady => {
                *left = left.saturating_sub(1);
                *left == 0
            }
            // A lost message is sent once and again for each retry; each transmission has its own
            // timeout.
            Cause::Lost => match left.checked_sub(1) {
                Some(less) => {
                    *left = less;
                    false
                }
                None => true,
            },
            Cause::Late => false,
        }
    }

    /// Whether the last retry of the first send is over at this time.
    pub(crate) fn has_expired(&self, now: Duration) -> bool {
        self.wait.and_then(Wait::expires).is_some_and(|expires| expires <= now)
    }
}

/// How long the sender retries a peer that is not ready.
pub(crate) fn until_rnr_is_over(sender: &Qp, receiver: Option<&Qp>) -> Duration {
    let code = receiver.map_or(0, |qp| qp.attributes.min_rnr_timer);
    let timer = MinRnrTimer::new(code).map_or(Duration::ZERO, MinRnrTimer::duration);
    timer * u32::from(sender.attributes.rnr_retry)
}

/// How long a message without an answer is sent again.
pub(crate) fn until_retries_are_over(sender: &Qp) -> Duration {
    let timeout = Timeout::from_c(sender.attributes.timeout).and_then(Timeout::duration);
    timeout.unwrap_or_default() * (u32::from(sender.attributes.retry_cnt) + 1)
}
