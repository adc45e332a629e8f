//! The guest's console: a file that QEMU writes, read for how far the guest is and what went wrong.

use std::fs;
use std::path::Path;

use crate::sh::tail;

/// Our scripts' lines begin with this.
const OURS: &str = "soft-roce: ";
/// What a kernel says when it is done for.
const CRASHES: [&str; 5] =
    ["Kernel panic", "Oops:", "BUG: ", "general protection fault", "Unable to handle"];

/// The state of the guest by its console.
#[derive(Clone, Debug, Default)]
pub struct State {
    /// Bytes.
    pub length: usize,
    /// The last stage the guest has reached, empty before the first.
    pub stage: String,
    /// Why the guest's scripts gave up.
    pub failure: Option<String>,
    /// The first line of a kernel crash.
    pub crash: Option<String>,
}

impl State {
    /// Reads the console; one that is not there yet has shown nothing.
    pub fn read(console: &Path) -> State {
        let text = text(console);
        let mut state = State { length: text.len(), ..State::default() };
        // The last line may not be whole yet.
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        whole.lines().for_each(|line| state.line(line.trim_end()));
        state
    }

    fn line(&mut self, line: &str) {
        if let Some(stage) = line.strip_prefix(OURS) {
            match stage.strip_prefix("failed: ") {
                Some(why) => self.failure = Some(why.to_owned()),
                None => self.stage = stage.to_owned(),
            }
        } else if self.crash.is_none() && CRASHES.iter().any(|crash| line.contains(crash)) {
            self.crash = Some(line.to_owned());
        }
    }

    /// The end of the console, to be shown with an error; of a crash its beginning, since what
    /// matters there comes first.
    pub fn last_lines(&self, console: &Path) -> String {
        const LINES: usize = 30;
        let text = text(console);
        let lines: Vec<&str> = text.trim_end().lines().collect();
        let is_crash = |line: &&str| Some(line.trim_end()) == self.crash.as_deref();
        let start = lines.iter().position(is_crash).unwrap_or(lines.len().saturating_sub(LINES));
        tail(&lines[start..lines.len().min(start + LINES)].join("\n"), LINES)
    }
}

fn text(console: &Path) -> String {
    String::from_utf8_lossy(&fs::read(console).unwrap_or_default()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_understood() {
        let mut state = State::default();
        for line in [
            "soft-roce: init",
            "[ 1.0] BUG: kernel NULL pointer dereference, address: 0000000000000000",
            "[ 1.1] Oops: 0000 [#1] PREEMPT SMP",
            "soft-roce: failed: cannot mount the share",
        ] {
            state.line(line);
        }
        assert_eq!(state.stage, "init");
        assert_eq!(state.failure.as_deref(), Some("cannot mount the share"));
        assert!(state.crash.is_some_and(|crash| crash.contains("NULL pointer")));
    }
}
