//! The compile errors that the guide and the README show are those that the compiler gave to the
//! ui-tests.

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
    for (page, least) in [("src/guide/compile_errors.md", 6), ("README.md", 1)] {
        let page = read(page);
        let mut quoted = 0;
        for part in page.split("<!-- ").filter(|part| part.starts_with("ui-tests/")) {
            let (path, rest) = part.split_once(" -->\n```text\n").expect("a block behind its file");
            let (block, _) = rest.split_once("\n```").expect("the block ends");
            assert!(block.starts_with("error"), "{block}");
            assert!(read(path).contains(block), "{path} says something else:\n{block}");
            quoted += 1;
        }
        assert_eq!(quoted, page.matches("```text").count(), "every block names its file");
        assert!(quoted >= least, "{quoted} quoted");
    }
}
