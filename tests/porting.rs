//! The left columns of the porting pages contain names that exist in the versions that the pages
//! give. `PROVERBS_PORTED` is a folder with a checkout of each commit:
//!
//! ```sh
//! cd $PROVERBS_PORTED
//! git clone https://github.com/linux-rdma/rdma-core          # porting.md names the commit
//! git clone https://github.com/jonhoo/rust-ibverbs ibverbs   # from_ibverbs.md
//! git clone https://github.com/RDMA-Rust/sideway sideway     # from_sideway.md
//! ```

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The identifiers in code of the left columns. A final `*` stands for several names with that
/// prefix.
fn names(page: &str) -> BTreeSet<String> {
    let rows = page.lines().filter(|line| line.starts_with('|'));
    let cells = rows.filter_map(|row| row.split('|').nth(1));
    let code = cells.flat_map(|cell| cell.split('`').skip(1).step_by(2));
    let is_part = |c: char| c.is_alphanumeric() || c == '_' || c == '*';
    let words = code.flat_map(move |code| code.split(move |c| !is_part(c)));
    let is_name = |word: &&str| {
        word.len() > 2 && word.starts_with(|c: char| c.is_alphabetic()) && *word != "unsafe"
    };
    words.filter(is_name).map(str::to_owned).collect()
}

fn sources(folder: &Path, extension: &str, text: &mut String) {
    for entry in fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display())) {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            sources(&path, extension, text);
        } else if path.extension().is_some_and(|kind| kind == extension) {
            text.push_str(&fs::read_to_string(&path).expect("a source file"));
        }
    }
}

/// The names of a page that are not in the sources as whole words.
fn missing(page: &str, sources: &str) -> Vec<String> {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    let words: BTreeSet<&str> = sources.split(|c| !is_part(c)).collect();
    let is_there = |name: &String| match name.strip_suffix('*') {
        Some(start) => words.iter().any(|word| word.starts_with(start)),
        None => words.contains(name.as_str()),
    };
    names(page).into_iter().filter(|name| !is_there(name)).collect()
}

/// The word after the first `commit` of a page.
fn commit(page: &str) -> Option<&str> {
    let (_, rest) = page.split_once("commit `")?;
    rest.split('`').next().filter(|word| word.len() == 40)
}

const PAGES: [(&str, &str, &str); 3] = [
    ("rdma-core", "h", include_str!("../src/guide/porting.md")),
    ("ibverbs", "rs", include_str!("../src/guide/from_ibverbs.md")),
    ("sideway", "rs", include_str!("../src/guide/from_sideway.md")),
];

#[test]
#[ignore = "reads checkouts of the other projects: see above"]
fn each_name_exists() {
    let folder = std::env::var("PROVERBS_PORTED").expect("PROVERBS_PORTED: the checkouts");
    for (project, extension, page) in PAGES {
        // Names that its headers do not define: from the C library, and the name of a header.
        let mut text = String::from("htonl ntohl rdma_verbs ");
        sources(&PathBuf::from(&folder).join(project), extension, &mut text);
        let missing = missing(page, &text);
        assert!(missing.is_empty(), "not in {project}: {missing:?}");
    }
}

#[test]
fn each_page_names_its_commit() {
    for (project, _, page) in PAGES {
        assert!(commit(page).is_some() && names(page).len() > 20, "{project}");
    }
}

#[test]
fn names_are_read_and_missed() {
    let page = "| `a` | b |\n| `Device::open`, `setup_max_*` | `not_this` |\n";
    assert_eq!(missing(page, "fn open() { setup_max_sge() }"), ["Device"]);
}
