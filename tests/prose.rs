//! Checks prose. Pages that are written by hand, and comments, have lines of at most 100 columns;
//! tables, code, and words that cannot be broken may be longer. Sentences are plain English: the
//! module `patterns` lists the patterns that read as translated.
#![forbid(unsafe_code)]

use std::fs;
use std::path::{Path, PathBuf};

#[path = "prose/extract.rs"]
mod extract;
#[path = "prose/patterns.rs"]
mod patterns;
#[path = "prose/style.rs"]
mod style;

const WIDTH: usize = 100;

/// Compiler messages, and figures.
const LEFT_OUT: [&str; 2] = ["benches", "ui-tests"];

/// Collects the files with an extension below a folder, without those that git ignores.
fn files(folder: &Path, extension: &str, left_out: &[&str], all: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.strip_prefix("./").unwrap_or(&path);
        let last = name.file_name().unwrap().to_string_lossy();
        let is_made = last.starts_with('.') || path.is_dir() && last.starts_with("target");
        if is_made || left_out.iter().any(|out| name == Path::new(out)) {
            continue;
        }
        if path.is_dir() {
            files(&path, extension, left_out, all);
        } else if path.extension().is_some_and(|kind| kind == extension) {
            all.push(name.to_owned());
        }
    }
}

/// The text of a comment line, or `None`.
fn comment(line: &str) -> Option<&str> {
    let text = line.trim_start().strip_prefix("//")?;
    Some(text.strip_prefix(['/', '!']).unwrap_or(text))
}

/// The numbers of the lines that are too long; `prose` returns the prose of a line.
fn too_long<'t>(text: &'t str, prose: impl Fn(&'t str) -> Option<&'t str>) -> Vec<usize> {
    let (mut found, mut is_code) = (Vec::new(), false);
    for (i, line) in text.lines().enumerate() {
        let Some(prose) = prose(line) else {
            is_code = false;
            continue;
        };
        let prose = prose.trim();
        let is_fence = prose.starts_with("```");
        is_code ^= is_fence;
        let is_table = prose.starts_with('|');
        let is_whole = !prose.trim_start_matches("- ").contains(' ');
        let may_be_long = is_code || is_fence || is_table || is_whole;
        if line.chars().count() > WIDTH && !may_be_long {
            found.push(i + 1);
        }
    }
    found
}

#[test]
fn prose_is_wrapped() {
    let mut wrong = Vec::new();
    let mut look = |extension, prose: fn(&str) -> Option<&str>| {
        let mut all = Vec::new();
        files(Path::new("."), extension, &LEFT_OUT, &mut all);
        assert!(all.len() > 10, "{all:?}");
        for path in all {
            let text = fs::read_to_string(&path).unwrap();
            let lines = too_long(&text, prose);
            wrong.extend(lines.iter().map(|line| format!("{}:{line}", path.display())));
        }
    };
    look("md", |line| Some(line));
    look("rs", comment);
    assert!(wrong.is_empty(), "longer than {WIDTH} columns: {wrong:#?}");
}

#[test]
fn lines_that_are_too_long_are_found() {
    let words = "word ".repeat(21);
    let page = format!("{words}\n| {words}|\n```\n{words}\n```\n- [`{}`](x)\n", "x".repeat(100));
    assert_eq!(too_long(&page, Some), [1]);
    let code =
        format!("    // {words}\nlet {words};\n/// ```\n/// {words}\n/// ```\n//! {words}\n");
    assert_eq!(too_long(&code, comment), [1, 6]);
}
