//! The fabric's clock. Timestamps go on with each completion, so that the same program sees the
//! same times; timers run out by idle runs, until a test stops the clock and moves it.

use std::time::Duration;

use super::engine::Wait;
use super::fabric::{Fabric, State};
use super::personality::Habits;
use super::qp::Qp;
use proverbs_sys::terms::bounded::{MinRnrTimer, Timeout};

/// Its frequency, kHz.
pub(super) const KHZ: u64 = 156_250;
/// The bits of a timestamp.
pub(super) const MASK: u64 = (1 << 48) - 1;
/// From one completion to the next: 8 µs.
const STEP: u64 = 1250;
/// The time of day when a fabric is made, ns since 1970: some day in 2001.
const BEGIN_NS: u64 = 1_000_000_000_000_000_000;

/// When a completion was made, by both clocks.
pub(super) struct Time {
    pub(super) ticks: u64,
    pub(super) wallclock_ns: u64,
}

impl Fabric {
    /// Stops the clock of the fabric: from now on its time moves by [`advance`](Self::advance)
    /// alone.
    ///
    /// Without this, the retries of a send are used up while the fabric is idle: by polls that find
    /// nothing, of whichever thread. So a peer on another thread, which is about to post its
    /// receive, may come too late. While the clock stands, no retries are used up, however often
    /// and on however many threads the program polls, and a send passes as soon as its peer is
    /// ready.
    ///
    /// A clock that was stopped stays so; stopping it again does nothing. Faults that count runs
    /// ([`Fault::Delay`](super::Fault::Delay), [`Fault::FlushLate`](super::Fault::FlushLate)) do
    /// not ask the clock.
    pub fn stop_clock(&self) {
        self.shared().post(State::stop_clock);
    }

    /// Moves the clock of the fabric by `time`, having [stopped](Self::stop_clock) it. The devices
    /// work at the time that was, and whenever a timer runs out on the way, in the order of time.
    ///
    /// A send on RC is given up and completes as
    ///
    /// - `RnrRetryExc` when its peer had no receive for
    ///   the sender's `rnr_retry` times the peer's `min_rnr_timer`
    ///   ([R8.11]);
    /// - `RetryExc` when no answer came for one more than
    ///   `retry_cnt` times its `timeout` ([R8.10],
    ///   [R8.9]).
    ///
    /// Devices may wait longer; that of [`Personality::Worst`](super::Personality::Worst) does, for
    /// up to four times as long. Timestamps of completions
    /// ([`CompletionTs`]) move with the clock.
    ///
    /// [R8.10]: https://docs.rs/proverbs/latest/proverbs/guide/rules/index.html#r8-10
    /// [R8.11]: https://docs.rs/proverbs/latest/proverbs/guide/rules/index.html#r8-11
    /// [R8.9]: https://docs.rs/proverbs/latest/proverbs/guide/rules/index.html#r8-9
    /// [`CompletionTs`]: https://docs.rs/proverbs/latest/proverbs/completion/enum.CompletionTs.html
    pub fn advance(&self, time: Duration) {
        self.shared().post(|state| state.move_clock(time));
    }

    /// The time until the next send is given up, when the devices have done what they can do now;
    /// `None` if none waits, if all wait for ever, or if the clock was not
    /// [stopped](Self::stop_clock).
    ///
    /// A test whose program sends on another thread so learns that it waits:
    pub fn next_timer(&self) -> Option<Duration> {
        self.shared().post(State::next_timer)
    }
}

impl State {
    fn stop_clock(&mut self) {
        self.clock.get_or_insert_default();
    }

    fn move_clock(&mut self, time: Duration) {
        self.stop_clock();
        self.run();
        let end = self.now().saturating_add(time);
        while let Some(expiry) = self.next_expiry().filter(|expiry| *expiry <= end) {
            self.clock = Some(expiry);
            // The last retry. What it does not end is given up.
            self.run();
            if self.give_up(|qp| qp.has_expired(expiry)) {
                self.run();
            }
        }
        self.clock = Some(end);
    }

    fn next_timer(&mut self) -> Option<Duration> {
        let now = self.clock?;
        self.run();
        Some(self.next_expiry()?.saturating_sub(now))
    }

    /// The time by the clock, which stands at 0 until a test stops it.
    pub(super) fn now(&self) -> Duration {
        self.clock.unwrap_or_default()
    }

    fn next_expiry(&self) -> Option<Duration> {
        let waiting = self.active.iter().filter_map(|qp| self.qps.get(qp)?.wait);
        waiting.filter_map(Wait::expires).min()
    }
}

impl Habits {
    /// The time of a completion: its number on the fabric, and where the clock stood.
    pub(super) fn time(&self, completion: u64, clock: Duration) -> Time {
        let clock_ns = u64::try_from(clock.as_nanos()).unwrap_or(u64::MAX);
        let passed = (completion * STEP).wrapping_add(ticks(clock));
        // Elsewhere the bits are soon used up, and it begins anew.
        let begin = if self.is_plain() { 0 } else { MASK - 5 * STEP / 2 };
        let wallclock_ns = (BEGIN_NS + completion * STEP * 1_000_000 / KHZ).wrapping_add(clock_ns);
        Time { ticks: begin.wrapping_add(passed) & MASK, wallclock_ns }
    }
}

/// Of the device's clock, in a time.
fn ticks(time: Duration) -> u64 {
    (time.as_nanos() * u128::from(KHZ) / 1_000_000) as u64
}

/// For how long a peer that is not ready is asked again.
pub(super) fn until_rnr_is_over(sender: &Qp, receiver: Option<&Qp>) -> Duration {
    let code = receiver.map_or(0, |qp| qp.attributes.min_rnr_timer);
    let timer = MinRnrTimer::new(code).map_or(Duration::ZERO, MinRnrTimer::duration);
    timer * u32::from(sender.attributes.rnr_retry)
}

/// For how long a message without an answer is sent again.
pub(super) fn until_retries_are_over(sender: &Qp) -> Duration {
    let timeout = Timeout::from_c(sender.attributes.timeout).and_then(Timeout::duration);
    timeout.unwrap_or_default() * (u32::from(sender.attributes.retry_cnt) + 1)
}
