//! Pages of figures, each section written by the command that made it.

use std::fs;

use anyhow::{Context, Result};

use crate::paths;

/// Puts what a command printed into its section of FAULTS.md.
pub fn record(section: &str, command: &str, printed: &str) -> Result<()> {
    let lines = printed.lines().map(str::trim_end).filter(|line| !line.is_empty());
    let text = lines.collect::<Vec<_>>().join("\n");
    put("FAULTS.md", section, &format!("`{command}` says:\n\n```text\n{text}\n```\n"))?;
    println!("{}\nrecorded in FAULTS.md", printed.trim_end());
    Ok(())
}

/// Replaces what stands between `<!-- section -->` and `<!-- /section -->`.
pub fn put(page: &str, section: &str, text: &str) -> Result<()> {
    let path = paths::workspace().join(page);
    let old = fs::read_to_string(&path).with_context(|| format!("cannot read {page}"))?;
    let new = replace(&old, section, text);
    let new = new.with_context(|| format!("{page} has no section `{section}`"))?;
    fs::write(&path, new).with_context(|| format!("cannot write {page}"))
}

fn replace(page: &str, section: &str, text: &str) -> Option<String> {
    let (begin, end) = (format!("<!-- {section} -->\n"), format!("<!-- /{section} -->"));
    let (before, rest) = page.split_once(&begin)?;
    let (_, after) = rest.split_once(&end)?;
    Some(format!("{before}{begin}{text}{end}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_is_replaced_and_no_other() {
        let page = "a\n<!-- x -->\nold\n<!-- /x -->\nb\n<!-- y -->\nkept\n<!-- /y -->\n";
        let new = replace(page, "x", "new\n").expect("there is an x");
        assert_eq!(new, "a\n<!-- x -->\nnew\n<!-- /x -->\nb\n<!-- y -->\nkept\n<!-- /y -->\n");
        assert_eq!(replace(page, "z", ""), None);
    }
}
