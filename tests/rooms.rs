//! The rooms of `src` import one way: each only from those before it, as DESIGN.md lists them.
#![forbid(unsafe_code)]

use std::fs;
use std::path::{Path, PathBuf};

/// From the lowest up. Files at the top of `src` are rooms too.
const ORDER: [&str; 23] = [
    "sync",
    "cold",
    "hidden",
    "counters",
    "sys",
    "terms",
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
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    for path in entries {
        if path.is_dir() {
            sources(&path, all);
        } else if path.extension().is_some_and(|kind| kind == "rs") {
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
