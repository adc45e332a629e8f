//! The guest's console: a file that QEMU writes. It shows the progress of the guest, and its
//! errors.

use std::fs;
use std::path::Path;

use crate::sh::tail;

/// The prefix of lines from our scripts.
const OURS: &str = "soft-roce: ";
/// The messages of a kernel that has crashed.
const CRASHES: [&str; 5] =
    ["Kernel panic", "Oops:", "BUG: ", "general protection fault", "Unable to handle"];

/// The state of the guest according to its console.
#[derive(Clone, Debug, Default)]
pub struct State {
    /// Bytes.
    pub length: usize,
    /// The last stage the guest has reached, empty before the first.
    pub stage: String,
    /// The reason why the guest's scripts failed.
    pub failure: Option<String>,
    /// The first line of a kernel crash.
    pub crash: Option<String>,
}

impl State {
    /// Reads the console. A missing file counts as empty.
    pub fn read(console: &Path) -> State {
        let text = text(console);
        let mut state = State { length: text.len(), ..State::default() };
        // The last line may be incomplete.
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

    /// The end of the console, to be shown with an error. For a crash, its beginning, because the
    /// important lines come first.
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
