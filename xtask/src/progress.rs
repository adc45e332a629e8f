//! Progress on stderr: a spinner for a person, one line a step for a log.

use std::borrow::Cow;
use std::env;
use std::io::{IsTerminal, stderr};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

/// One step of the work, from its start until it is done or dropped.
pub struct Step {
    bar: ProgressBar,
    start: Instant,
}

impl Step {
    /// Starts a step: "Unpacking the kernel".
    pub fn start(what: impl Into<Cow<'static, str>>) -> Self {
        let what = what.into();
        // A spinner in a log is noise, and CI systems often pretend to be terminals.
        let ci = env::var_os("CI").is_some_and(|value| !value.is_empty() && value != "false");
        let bar = if stderr().is_terminal() && !ci {
            let bar = ProgressBar::new_spinner().with_message(what);
            bar.enable_steady_tick(Duration::from_millis(100));
            bar
        } else {
            eprintln!("==> {what}");
            ProgressBar::hidden()
        };
        if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} ({elapsed})") {
            bar.set_style(style);
        }
        Self { bar, start: Instant::now() }
    }

    /// Says what the step is at; a log does not need to know.
    pub fn update(&self, what: impl Into<Cow<'static, str>>) {
        self.bar.set_message(what);
    }

    /// Ends the step with a line that stays, and its time.
    pub fn done(self, what: &str) {
        self.bar.finish_and_clear();
        eprintln!("==> {what} ({:.1} s)", self.start.elapsed().as_secs_f64());
    }
}

impl Drop for Step {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
