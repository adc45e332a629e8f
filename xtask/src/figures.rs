//! FAULTS.md: the page of figures, each section written by the command that made it.

use std::fs;

use anyhow::{Context, Result, bail};

use crate::paths;

/// Puts what a command printed into its section of the page.
pub fn record(section: &str, command: &str, printed: &str) -> Result<()> {
    let path = paths::workspace().join("FAULTS.md");
    let page = fs::read_to_string(&path).context("cannot read FAULTS.md")?;
    let page = replace(&page, section, &body(command, printed))?;
    fs::write(&path, page).context("cannot write FAULTS.md")?;
    println!("{}", printed.trim_end());
    println!("recorded in FAULTS.md");
    Ok(())
}

/// Lines of a test's harness and of a guest's kernel are nobody's figures.
fn body(command: &str, printed: &str) -> String {
    let lines = printed.lines().map(str::trim_end).filter(|line| !line.is_empty());
    let text: Vec<&str> = lines.collect();
    format!("`{command}` says:\n\n```text\n{}\n```\n", text.join("\n"))
}

fn replace(page: &str, section: &str, body: &str) -> Result<String> {
    let (begin, end) = (format!("<!-- {section} -->\n"), format!("<!-- /{section} -->"));
    let Some((before, rest)) = page.split_once(&begin) else {
        bail!("FAULTS.md has no section {section}");
    };
    let Some((_, after)) = rest.split_once(&end) else {
        bail!("section {section} of FAULTS.md has no end");
    };
    Ok(format!("{before}{begin}{body}{end}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_is_replaced_and_no_other() {
        let page = "a\n<!-- x -->\nold\n<!-- /x -->\nb\n<!-- y -->\nkept\n<!-- /y -->\n";
        let new = replace(page, "x", "new\n").expect("there is an x");
        assert_eq!(new, "a\n<!-- x -->\nnew\n<!-- /x -->\nb\n<!-- y -->\nkept\n<!-- /y -->\n");
        assert!(replace(page, "z", "").is_err());
    }
}
