//! A documentation search finds the item for each C name of the porting page, and for some words of
//! the field. `doc_search/search.js` runs rustdoc's own search in node.
//!
//! Part `doc` of `cargo xtask test` writes the pages with docs.rs' nightly: rustdoc 1.95 loses the
//! aliases of items that are re-exported from a private module.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

/// Words, and the page or the anchor that must be among the first results.
const WORDS: [(&str, &str); 6] = [
    ("mmap", "memory/struct.Mapping.html"),
    ("zero-copy", "struct.Buf.html"),
    ("rdma_cm", "cm/index.html"),
    ("handshake", "endpoint/"),
    ("revoke", "Window"),
    ("poll", "struct.CompletionQueue.html#method.poll"),
];

/// The C names in the left columns of the page for porting.
fn c_names() -> BTreeSet<String> {
    let page = include_str!("../src/guide/porting.md");
    let rows = page.lines().filter(|line| line.starts_with('|'));
    let cells = rows.filter_map(|row| row.split('|').nth(1));
    let words = cells.flat_map(|cell| cell.split('`').skip(1).step_by(2));
    let words = words.flat_map(|code| code.split(|c: char| !c.is_alphanumeric() && c != '_'));
    let is_c = |word: &&str| {
        ["ibv_", "rdma_", "IBV_", "RDMA_"].iter().any(|start| word.starts_with(start))
            && !word.ends_with('_')
    };
    words.filter(is_c).map(str::to_owned).collect()
}

/// The results of each word.
fn search(pages: &Path, words: &BTreeSet<String>) -> Vec<(String, String)> {
    let out = Command::new("node")
        .args([Path::new("tests/doc_search/search.js"), pages, Path::new("proverbs")])
        .args(words)
        .output()
        .expect("node runs");
    let error = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{error}");
    let text = String::from_utf8(out.stdout).expect("lines");
    let lines = text.lines().filter_map(|line| line.split_once('\t'));
    lines.map(|(word, found)| (word.to_owned(), found.to_owned())).collect()
}

#[test]
#[ignore = "reads the pages that a nightly rustdoc wrote, with node: part `pages`"]
fn each_c_name_and_word_is_found() {
    let pages = std::env::var("PROVERBS_DOC").expect(
        "PROVERBS_DOC must name the folder of the \
        pages",
    );
    let mut words = c_names();
    assert!(words.len() > 70, "{words:?}");
    words.extend(WORDS.map(|(word, _)| word.to_owned()));
    let results = search(Path::new(&pages), &words);
    assert_eq!(results.len(), words.len());
    let mut missing = Vec::new();
    for (word, found) in &results {
        let expected = WORDS.iter().find(|(of, _)| of == word).map_or("", |(_, page)| page);
        if found.is_empty() || !found.contains(expected) {
            missing.push(format!("{word}: {found}"));
        }
    }
    assert!(missing.is_empty(), "add `#[doc(alias = \"..\")]`:\n{}", missing.join("\n"));
}

/// The page has C names, and they are read.
#[test]
fn the_page_has_c_names() {
    let names = c_names();
    assert!(names.contains("ibv_post_send") && names.contains("rdma_connect"), "{names:?}");
}
