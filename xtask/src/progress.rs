//! Progress on stderr: a line when a step starts, and one with its duration when it is done.

use std::borrow::Cow;
use std::time::Instant;

/// One step of the work.
pub struct Step(Instant);

impl Step {
    /// Starts a step: "Unpacking the kernel".
    pub fn start(what: impl Into<Cow<'static, str>>) -> Self {
        eprintln!("==> {}", what.into());
        Self(Instant::now())
    }

    /// Ends the step.
    pub fn done(self, what: &str) {
        eprintln!("==> {what} ({:.1} s)", self.0.elapsed().as_secs_f64());
    }
}
