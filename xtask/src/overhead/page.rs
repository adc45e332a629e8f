//! The dated page of headline figures. README repeats its tables, and a test compares the two.

use std::fs;

use anyhow::{Context, Result};

use crate::paths;
use crate::sh::{self, cmd};

const PAGE: &str = "benches/FIGURES.md";
const README: &str = "README.md";

/// Writes the tables to both pages, with the commit to the dated page.
pub fn write(tables: &str) -> Result<()> {
    let commit = cmd!(sh::here(), "git log -1 --format=%h,%cs").read()?;
    let (commit, date) = commit.split_once(',').context("git prints a commit and its date")?;
    put(PAGE, "commit", &format!("Counted at commit {commit} of {date}.\n"))?;
    [PAGE, README].iter().try_for_each(|page| put(page, "overhead", tables))
}

fn read(page: &str) -> Result<String> {
    fs::read_to_string(paths::workspace().join(page)).with_context(|| format!("cannot read {page}"))
}

/// The text between `<!-- name -->` and `<!-- /name -->`.
fn section<'a>(page: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = page.split_once(&format!("<!-- {name} -->\n"))?;
    Some(rest.split_once(&format!("<!-- /{name} -->"))?.0)
}

fn put(page: &str, name: &str, new: &str) -> Result<()> {
    let text = read(page)?;
    let old = section(&text, name).with_context(|| format!("{page} has no section `{name}`"))?;
    let start = old.as_ptr() as usize - text.as_ptr() as usize;
    let text = format!("{}{new}{}", &text[..start], &text[start + old.len()..]);
    fs::write(paths::workspace().join(page), text).with_context(|| format!("cannot write {page}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readme_repeats_the_dated_page() {
        let (page, readme) = (read(PAGE).unwrap(), read(README).unwrap());
        let figures = section(&page, "overhead").expect("the page has the tables");
        assert!(figures.lines().count() > 10, "{figures}");
        assert_eq!(section(&readme, "overhead"), Some(figures));
    }

    #[test]
    fn the_dated_page_is_short_and_names_its_commits() {
        let page = read(PAGE).unwrap();
        assert!(page.lines().count() <= 60, "{PAGE} has {} lines", page.lines().count());
        for part in page.split("\n## ").skip(1) {
            assert!(part.contains(" at commit "), "{part}\nnames no commit");
        }
    }
}
