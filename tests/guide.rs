//! The guide and the README quote compile errors that the ui-tests contain.

use std::fs;

/// A comment names the file; the block after it is part of that file.
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
            assert!(read(path).contains(block), "{path} does not contain:\n{block}");
            quoted += 1;
        }
        assert_eq!(quoted, page.matches("```text").count(), "every block names its file");
        assert!(quoted >= least, "{quoted} quoted");
    }
}
