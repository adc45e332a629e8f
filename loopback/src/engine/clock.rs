//! The fabric's clock. Idle runs use up timers until a test stops the clock and moves it.

use std::time::Duration;

use crate::objects::qp::Wait;
use crate::state::State;

impl State {
    pub(crate) fn stop_clock(&mut self) {
        self.clock.get_or_insert_default();
    }

    pub(crate) fn move_clock(&mut self, time: Duration) {
        self.stop_clock();
        self.run();
        let end = self.now().saturating_add(time);
        while let Some(expiry) = self.next_expiry().filter(|expiry| *expiry <= end) {
            self.clock = Some(expiry);
            // This run makes the last retry. Sends that still wait after it fail.
            self.run();
            if self.give_up(|qp| qp.has_expired(expiry)) {
                self.run();
            }
        }
        self.clock = Some(end);
    }

    pub(crate) fn next_timer(&mut self) -> Option<Duration> {
        let now = self.clock?;
        self.run();
        Some(self.next_expiry()?.saturating_sub(now))
    }

    fn next_expiry(&self) -> Option<Duration> {
        let waiting = self.active.iter().filter_map(|qp| self.qps.get(qp)?.wait);
        waiting.filter_map(Wait::expires).min()
    }
}
