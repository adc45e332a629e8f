//! The compile errors that the guide shows are those that the compiler gave to the ui-tests.

use std::fs;

/// A comment names the file; the block behind it is a part of that.
#[test]
fn quoted_errors_are_real() {
    let root = env!("CARGO_MANIFEST_DIR");
    let read = |path: &str| {
        let path = format!("{root}/{path}");
        let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
        text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
    };
    let page = read("src/guide/compile_errors.md");
    let mut quoted = 0;
    for part in page.split("<!-- ").skip(1) {
        let (path, rest) = part.split_once(" -->\n```text\n").expect("a block behind its file");
        let (block, _) = rest.split_once("\n```").expect("the block ends");
        assert!(block.starts_with("error"), "{block}");
        assert!(read(path).contains(block), "{path} says something else than the guide:\n{block}");
        quoted += 1;
    }
    assert_eq!(quoted, page.matches("```text").count(), "every block names its file");
}
