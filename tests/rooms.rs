//! The rooms of `src` import one way: each only from those before it, as DESIGN.md draws them. (The
//! crates below `proverbs` cannot name it.)
//! Unsafe code is in the rooms that docs/unsafe.md lists. No compiler sends a user into a room that
//! is not public.
#![forbid(unsafe_code)]

use std::fs;
use std::path::{Path, PathBuf};

/// From the lowest up. Files at the top of `src` are rooms too.
const ORDER: [&str; 20] = [
    "hidden",
    "counters",
    "absence",
    "wait",
    "device",
    "memory",
    "work",
    "completion",
    "ledger",
    "profile",
    "rules",
    "post",
    "srq",
    "qp",
    "raw",
    "loopback",
    "endpoint",
    "cm",
    "diagnostics",
    "guide",
];

fn sources(folder: &Path, all: &mut Vec<PathBuf>) {
    files(folder, "rs", all);
}

/// The files below a folder whose names end so.
fn files(folder: &Path, extension: &str, all: &mut Vec<PathBuf>) {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    for path in entries {
        if path.is_dir() {
            files(&path, extension, all);
        } else if path.extension().is_some_and(|kind| kind == extension) {
            all.push(path);
        }
    }
}

/// The rooms that a file names by `crate::room::`, outside comments and macros that users expand.
fn named(text: &str) -> Vec<String> {
    let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
    let code: String = code.map(|line| format!("{line}\n")).collect();
    let code = code.replace("$crate::", "");
    let rooms = code.split("crate::").skip(1);
    let words = rooms.map(|rest| rest.split(|c: char| !c.is_alphanumeric() && c != '_').next());
    words.flatten().map(str::to_owned).collect()
}

#[test]
fn each_room_imports_only_from_those_below() {
    let place = |room: &str| ORDER.iter().position(|name| *name == room);
    let mut files = Vec::new();
    sources(Path::new("src"), &mut files);
    let mut wrong = Vec::new();
    for path in files {
        let inside = path.strip_prefix("src").unwrap();
        let room = inside.components().next().unwrap().as_os_str().to_string_lossy();
        let room = room.trim_end_matches(".rs");
        // The root and the prelude name everything; tests build what they look at.
        if ["lib", "prelude"].contains(&room) || inside.to_string_lossy().contains("tests") {
            continue;
        }
        let here = place(room).unwrap_or_else(|| panic!("src/{room} is in no order"));
        let text = fs::read_to_string(&path).unwrap();
        let code = text.split("\n#[cfg(test)]\nmod ").next().unwrap();
        let above = named(code).into_iter().filter(|name| place(name).is_some_and(|at| at > here));
        wrong.extend(above.map(|name| format!("{} names {name}", path.display())));
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// The paths below `src` that the first column of the table of unsafe rooms names.
fn unsafe_rooms() -> Vec<String> {
    let page = fs::read_to_string("docs/unsafe.md").unwrap();
    let (_, section) = page.split_once("\n## The unsafe rooms\n").unwrap();
    let section = section.split("\n## ").next().unwrap();
    let rows = section.lines().skip_while(|line| !line.starts_with("|---"));
    let rows = rows.skip(1).take_while(|line| line.starts_with('|'));
    let cells = rows.map(|row| row.split('|').nth(1).unwrap());
    cells.flat_map(|cell| cell.split('`').skip(1).step_by(2)).map(str::to_owned).collect()
}

/// Whether a room is this file, or a folder around it.
fn is_room_of(room: &str, file: &str) -> bool {
    if room.ends_with('/') { file.starts_with(room) } else { file == room }
}

/// docs/unsafe.md names each file that allows unsafe code, by itself or by its folder, and no other
/// file.
#[test]
fn the_unsafe_rooms_are_those_of_the_table() {
    let rooms = unsafe_rooms();
    assert!(rooms.len() > 10, "{rooms:?}");
    let mut files = Vec::new();
    sources(Path::new("src"), &mut files);
    let opened = files.into_iter().filter(|path| {
        let is_test = path.to_string_lossy().contains("tests");
        !is_test && fs::read_to_string(path).unwrap().contains("allow(unsafe_code)")
    });
    let inside = |path: PathBuf| path.strip_prefix("src").unwrap().to_str().unwrap().to_owned();
    let opened: Vec<String> = opened.map(inside).collect();
    let is_in_table = |file: &&String| rooms.iter().any(|room| is_room_of(room, file));
    let left_out: Vec<_> = opened.iter().filter(|file| !is_in_table(file)).collect();
    let is_safe = |room: &&String| !opened.iter().any(|file| is_room_of(room, file));
    let safe: Vec<_> = rooms.iter().filter(is_safe).collect();
    assert!(
        left_out.is_empty() && safe.is_empty(),
        "not in the table: {left_out:?}; safe: {safe:?}"
    );
}

/// What a compiler's message would have a user write: the lines that each `help` shows, unless they
/// are quoted from a file, and its words, unless they tell who implements a trait.
fn suggestions(message: &str) -> Vec<&str> {
    let mut all = Vec::new();
    let mut lines = message.lines().peekable();
    while let Some(line) = lines.next() {
        let Some((_, words)) = line.split_once("help: ") else { continue };
        let begins = |line: &str, mark: char| line.trim_start().starts_with(mark);
        let is_shown = |line: &&str| {
            begins(line, '|')
                || begins(line, '-')
                || line.trim_start().starts_with(char::is_numeric)
        };
        let mut shown = Vec::new();
        while let Some(line) = lines.next_if(is_shown) {
            shown.push(line);
        }
        if !words.contains("implement") {
            all.push(words);
        }
        if !shown.iter().any(|line| line.trim_start().starts_with("-->")) {
            all.extend(shown);
        }
    }
    all
}

/// The module of this name in a file of `src` is not public.
fn is_private(file: &Path, module: &str) -> bool {
    let text = fs::read_to_string(file).unwrap_or_default();
    let mut heads = text.lines().filter_map(|line| line.trim_start().split_once("mod "));
    heads.any(|(head, rest)| {
        let name = rest.split([';', ' ']).next();
        name == Some(module) && (head.is_empty() || head.starts_with("pub("))
    })
}

/// The paths of this crate in a text that lead through a module that is not public.
fn private_paths(text: &str) -> Vec<String> {
    let mut all = Vec::new();
    for rest in text.split("proverbs::").skip(1) {
        let end = rest.find(|c: char| !c.is_alphanumeric() && !"_:".contains(c));
        let path = &rest[..end.unwrap_or(rest.len())];
        let mut file = PathBuf::from("src/lib.rs");
        let mut room = PathBuf::from("src");
        for module in path.split("::") {
            if is_private(&file, module) {
                all.push(format!("proverbs::{path}"));
                break;
            }
            room.push(module);
            let (folder, alone) = (room.join("mod.rs"), room.with_extension("rs"));
            file = if folder.exists() { folder } else { alone };
        }
    }
    all
}

#[test]
fn no_message_suggests_a_private_room() {
    let mut messages = Vec::new();
    files(Path::new("ui-tests"), "stderr", &mut messages);
    assert!(messages.len() > 100, "{}", messages.len());
    let mut wrong = Vec::new();
    for path in messages {
        let text = fs::read_to_string(&path).unwrap();
        let found = suggestions(&text).into_iter().flat_map(private_paths);
        wrong.extend(found.map(|found| format!("{}: {found}", path.display())));
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// What the test above would find: an import, a path within a line, and a path in words. What a
/// message says of the crate beside that is no suggestion, and a public path is none of these.
#[test]
fn a_suggestion_of_a_private_room_is_found() {
    let message = "\
error[E0433]: cannot find `Gone` in this scope
 --> ui-tests/made/up.rs:4:5
  |
4 |     Gone::new(proverbs::work::limits::Quoted);
  |     ^^^^ not found in this scope
  |
help: consider importing one of these
  |
3 + use proverbs::wr::Send;
  |
3 + use proverbs::work::opcode::Send;
  |
help: use it by its path
  |
4 |     proverbs::qp::create::Gone::new();
  |     ++++++++++++++++++++++
help: there is a `proverbs::memory::pool::Gone`
help: the trait `proverbs::work::limits::Within` is not implemented for `Gone`
 --> src/qp/mod.rs
  |
9 | pub use proverbs::ledger::Ring;
  | ^^^^^^^
  = note: required by `proverbs::ledger::Room`
  = help: the following types implement trait `proverbs::work::data::Data`:
            proverbs::terms::error::Error
";
    let found: Vec<_> = suggestions(message).into_iter().flat_map(private_paths).collect();
    let expected = [
        "proverbs::work::opcode::Send",
        "proverbs::qp::create::Gone::new",
        "proverbs::memory::pool::Gone",
    ];
    assert_eq!(found, expected);
}
