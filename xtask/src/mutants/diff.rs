//! The lines that a unified diff adds or changes.

use std::collections::BTreeMap;
use std::fs;
use std::ops::RangeInclusive;
use std::path::Path;

use anyhow::{Context, Result, ensure};

/// The numbers (from 1) and texts of the added lines of each file.
#[derive(Default)]
pub struct Added(BTreeMap<String, BTreeMap<usize, String>>);

impl Added {
    /// Whether one of these lines is added.
    pub fn touch(&self, file: &str, lines: RangeInclusive<usize>) -> bool {
        self.0.get(file).is_some_and(|added| added.range(lines).next().is_some())
    }
}

/// Reads a diff whose paths begin with `b/`, or with nothing (`--no-prefix`).
pub fn added(diff: &str) -> Result<Added> {
    let mut all = Added::default();
    let (mut file, mut line, mut old, mut new) = (String::new(), 0, 0, 0);
    for text in diff.lines() {
        if old == 0 && new == 0 {
            if let Some(path) = text.strip_prefix("+++ ") {
                let path = path.split('\t').next().unwrap_or(path);
                file = path.strip_prefix("b/").unwrap_or(path).to_owned();
            } else if let Some(hunk) = text.strip_prefix("@@ -") {
                let hunk = hunk.split_once(" +").and_then(|(left, rest)| {
                    Some((length(left)?.1, length(rest.split_once(" @@")?.0)?))
                });
                (old, (line, new)) = hunk.with_context(|| format!("cannot read `{text}`"))?;
            }
        } else if let Some(text) = text.strip_prefix('+') {
            all.0.entry(file.clone()).or_default().insert(line, text.to_owned());
            (line, new) = (line + 1, new - 1);
        } else if text.starts_with('-') {
            old -= 1;
        } else if !text.starts_with('\\') {
            (line, old, new) = (line + 1, old - 1, new - 1);
        }
    }
    Ok(all)
}

/// `12,3`, or `12` for one line.
fn length(text: &str) -> Option<(usize, usize)> {
    let (from, count) = text.split_once(',').unwrap_or((text, "1"));
    Some((from.parse().ok()?, count.parse().ok()?))
}

/// Fails unless the files below `root` contain the added lines, so the diff belongs to this tree.
pub fn check(added: &Added, root: &Path) -> Result<()> {
    let is_source = |file: &str| super::FOLDERS.iter().any(|it| Path::new(file).starts_with(it));
    for (file, lines) in added.0.iter().filter(|(file, _)| is_source(file)) {
        let text = fs::read_to_string(root.join(file)).unwrap_or_default();
        let there: Vec<&str> = text.lines().collect();
        for (line, text) in lines {
            let same = there.get(line - 1).is_some_and(|there| there == text);
            ensure!(same, "{file}:{line} differs from the diff: `{text}`");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::added;

    #[test]
    fn added_and_changed_lines() {
        let diff = "diff --git a/src/a.rs b/src/a.rs\n--- a/src/a.rs\n+++ b/src/a.rs\n\
            @@ -1,3 +1,4 @@ fn f() {\n one\n-two\n+2\n+--- b\n three\n\
            @@ -9 +10 @@\n-nine\n\\ No newline at end of file\n+9\n\
            --- a/src/b.rs\n+++ /dev/null\n@@ -1 +0,0 @@\n-gone\n";
        let added = added(diff).expect("a diff");
        let is_added = |line| added.touch("src/a.rs", line..=line);
        assert_eq!((1..12).filter(|&line| is_added(line)).collect::<Vec<_>>(), [2, 3, 10]);
        assert!(added.touch("src/a.rs", 4..=10) && !added.touch("src/a.rs", 4..=9));
        assert!(!added.touch("src/b.rs", 0..=99));
    }
}
