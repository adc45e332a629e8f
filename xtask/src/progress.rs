//! Progress on stderr: a spinner for a person, one line a step for a log.

use std::borrow::Cow;
use std::env;
use std::io::{IsTerminal, stderr};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

/// One step of the work, from its start until it is done or dropped.
pub struct Step {
    bar: Option<ProgressBar>,
    start: Instant,
}

impl Step {
    /// Starts a step: "Unpacking the kernel".
    pub fn start(what: impl Into<Cow<'static, str>>) -> Self {
        let what = what.into();
        let bar = if is_interactive() {
            let bar = ProgressBar::new_spinner().with_message(what);
            if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} ({elapsed})") {
                bar.set_style(style);
            }
            bar.enable_steady_tick(Duration::from_millis(100));
            Some(bar)
        } else {
            eprintln!("==> {what}");
            None
        };
        Self { bar, start: Instant::now() }
    }

    /// Says what the step is at; a log does not need to know.
    pub fn update(&self, what: impl Into<Cow<'static, str>>) {
        if let Some(bar) = &self.bar {
            bar.set_message(what);
        }
    }

    /// Ends the step with a line that stays, and its time.
    pub fn done(self, what: &str) {
        let seconds = self.start.elapsed().as_secs_f64();
        self.clear();
        eprintln!("==> {what} ({seconds:.1} s)");
    }

    fn clear(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

impl Drop for Step {
    fn drop(&mut self) {
        self.clear();
    }
}

/// A spinner in a log is noise, and CI systems often pretend to be terminals.
fn is_interactive() -> bool {
    let ci = env::var_os("CI").is_some_and(|value| !value.is_empty() && value != "false");
    stderr().is_terminal() && !ci
}
