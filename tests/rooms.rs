//! The modules ("rooms") of `src` import in one direction: each only from earlier ones, as
//! DESIGN.md draws them. (The crates below `proverbs` cannot name it.) The modules of the loopback
//! device are in layers, too. Unsafe code is in the rooms that docs/unsafe.md lists. No compiler
//! message suggests a private room.
#![forbid(unsafe_code)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// From the lowest up. Files at the top of `src` are rooms too, and so is each folder of `src/ext`.
const ORDER: [&str; 34] = [
    "allows",
    "cold_calls",
    "black_box",
    "wait",
    "device",
    "memory",
    "work",
    "completion",
    "in_flight",
    "profile",
    "rules",
    "post",
    "srq",
    "qp",
    "ext::extended_polling",
    "ext::extended_posting",
    "ext::windows",
    "ext::on_demand",
    "ext::persistence",
    "ext::srd",
    "ext::device_memory",
    "ext::path_migration",
    "ext::tuning",
    "ext::xrc",
    "first_calls",
    "raw",
    "loopback",
    "endpoint",
    "cm",
    "ext::af_ib",
    "wait_for",
    "diagnostics",
    "guide",
    "ext",
];

fn sources(folder: &Path, all: &mut Vec<PathBuf>) {
    files(folder, "rs", all);
}

/// The files below a folder with this extension.
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

/// The text before the first test module in it. (Declarations of test files stay.)
fn without_tests(text: &str) -> &str {
    let heads =
        ["\n#[cfg(test)]\nmod tests {", "\n#[cfg(all(test, feature = \"loopback\"))]\nmod tests {"];
    let end = heads.iter().filter_map(|head| text.find(head)).min();
    &text[..end.unwrap_or(text.len())]
}

/// The rooms that a file names by `crate::room::`, outside comments and macros that users expand.
fn named(text: &str) -> Vec<String> {
    let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
    let code: String = code.map(|line| format!("{line}\n")).collect();
    let code = code.replace("$crate::", "");
    code.split("crate::").skip(1).map(|rest| room_of(rest, "::")).collect()
}

/// The room of a path in `src`: its first part, and of an extension also the second.
fn room_of(path: &str, separator: &str) -> String {
    let mut parts = path.split(separator).map(|part| {
        part.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default()
    });
    match (parts.next().unwrap_or_default(), parts.next()) {
        ("ext", Some(name)) if !["", "mod"].contains(&name) => format!("ext::{name}"),
        (room, _) => room.to_owned(),
    }
}

#[test]
fn each_room_imports_only_from_those_below() {
    let place = |room: &str| ORDER.iter().position(|name| *name == room);
    let mut files = Vec::new();
    sources(Path::new("src"), &mut files);
    let mut wrong = Vec::new();
    for path in files {
        let inside = path.strip_prefix("src").unwrap();
        let room = room_of(&inside.to_string_lossy(), "/");
        // The root and the prelude name everything; tests use any room.
        if ["lib", "prelude"].contains(&room.as_str()) || inside.to_string_lossy().contains("tests")
        {
            continue;
        }
        let here = place(&room).unwrap_or_else(|| panic!("src/{room} is in no order"));
        let text = fs::read_to_string(&path).unwrap();
        let code = without_tests(&text);
        let above = named(code).into_iter().filter(|name| place(name).is_some_and(|at| at > here));
        wrong.extend(above.map(|name| format!("{} names {name}", path.display())));
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// The modules of the loopback device with their code, without comments, its root and its tests.
/// `c_api` and `cm`, the boundaries to C, are one module each.
fn modules_of_the_loopback() -> BTreeMap<String, String> {
    let root = Path::new("loopback/src");
    let mut files = Vec::new();
    sources(root, &mut files);
    let mut modules = BTreeMap::<String, String>::new();
    for path in files {
        let inside = path.strip_prefix(root).unwrap().with_extension("");
        let parts: Vec<_> = inside.iter().map(|part| part.to_str().unwrap()).collect();
        let name = match parts[..] {
            ["lib"] | ["tests", ..] => continue,
            ["c_api" | "cm", ..] | [_, "mod"] => parts[0].to_owned(),
            _ => parts.join("::"),
        };
        let text = fs::read_to_string(&path).unwrap();
        let code = without_tests(&text);
        let lines = code.lines().map(|line| line.split("//").next().unwrap());
        modules.entry(name).or_default().extend(lines.flat_map(|line| [line, "\n"]));
    }
    modules
}

/// The paths after `crate::` in a text, with each name of a group.
fn crate_paths(code: &str) -> Vec<String> {
    let mut all = Vec::new();
    for rest in code.split("crate::").skip(1) {
        let end = rest.find(|c: char| !c.is_alphanumeric() && !"_:".contains(c));
        let (path, rest) = rest.split_at(end.unwrap_or(rest.len()));
        match rest.strip_prefix('{').and_then(|rest| rest.split('}').next()) {
            Some(group) => {
                all.extend(group.split(',').map(|name| format!("{path}{}", name.trim())))
            }
            None => all.push(path.to_owned()),
        }
    }
    all
}

/// The methods of `State` that a module defines.
fn methods_of_state(code: &str) -> Vec<&str> {
    let blocks = code.split("\nimpl State {\n").skip(1);
    let lines = blocks.flat_map(|block| block.split("\n}\n").next().unwrap().lines());
    let heads = lines.filter_map(|line| {
        let line = line.strip_prefix("    ")?;
        line.strip_prefix("pub(crate) ").unwrap_or(line).strip_prefix("fn ")
    });
    heads.filter_map(|head| head.split(['(', '<']).next()).collect()
}

/// The modules that each module uses: those that it names, and those that define a method of
/// `State` that it calls.
fn uses_of(modules: &BTreeMap<String, String>) -> BTreeMap<String, BTreeSet<String>> {
    let mut uses = BTreeMap::new();
    for (name, code) in modules {
        let mut used = BTreeSet::new();
        for path in crate_paths(code) {
            let mut path = path.as_str();
            while !modules.contains_key(path) {
                let Some((above, _)) = path.rsplit_once("::") else { break };
                path = above;
            }
            used.insert(path.to_owned());
        }
        if used.contains("state") || name == "state" {
            for (other, text) in modules {
                let is_called = |method: &&str| {
                    ["self", "state", "fabric"]
                        .iter()
                        .any(|of| code.contains(&format!("{of}.{method}(")))
                        || code.contains(&format!("State::{method}"))
                };
                if methods_of_state(text).iter().any(is_called) {
                    used.insert(other.clone());
                }
            }
        }
        used.retain(|other| other != name && modules.contains_key(other));
        uses.insert(name.clone(), used);
    }
    uses
}

/// The number of layers if each module is above those that it uses; or, if there is a cycle, the
/// modules in or above it.
fn floors(uses: &BTreeMap<String, BTreeSet<String>>) -> Result<usize, Vec<&str>> {
    let mut built = BTreeSet::new();
    for floor in 0.. {
        let left = uses.iter().filter(|(name, _)| !built.contains(*name));
        let left: Vec<_> = left.collect();
        if left.is_empty() {
            return Ok(floor);
        }
        let next = left.iter().filter(|(_, used)| used.is_subset(&built));
        let next: Vec<String> = next.map(|(name, _)| (*name).clone()).collect();
        if next.is_empty() {
            return Err(left.into_iter().map(|(name, _)| name.as_str()).collect());
        }
        built.extend(next);
    }
    unreachable!()
}

/// No two modules of the loopback device use each other, and it has at most ten layers.
#[test]
fn the_loopback_has_no_cycle() {
    let uses = uses_of(&modules_of_the_loopback());
    assert!(uses.len() > 40 && uses["engine::run"].contains("verbs::events"), "{uses:#?}");
    if let Err(circle) = floors(&uses) {
        panic!("in or above a cycle: {circle:#?}");
    }
    let room = |name: &String| name.split("::").next().unwrap().to_owned();
    let mut rooms = BTreeMap::<String, BTreeSet<String>>::new();
    for (name, used) in &uses {
        let others = used.iter().map(room).filter(|other| *other != room(name));
        rooms.entry(room(name)).or_default().extend(others);
    }
    assert!(floors(&rooms).is_ok_and(|floors| floors <= 10), "{rooms:#?}");
}

/// The cases that the test above must find: a module that names a higher one, and one that calls a
/// method of `State` from a higher one.
#[test]
fn a_cycle_is_found() {
    let modules = |low: &str| {
        let high = "use crate::low::{Data, More};\nuse crate::state::State;\n\
                    impl State {\n    pub(crate) fn work(&mut self) {\n    }\n}\n";
        let all = [("state", ""), ("low", low), ("high", high)];
        all.map(|(name, code)| (name.to_owned(), format!("\n{code}"))).into()
    };
    let found = |low: &str| floors(&uses_of(&modules(low))).map_err(|circle| circle.len());
    assert_eq!(found(""), Ok(2));
    assert_eq!(found("use crate::high::Engine;"), Err(2));
    assert_eq!(
        found("use crate::state::State;\nfn f(state: &mut State) { state.work(); }"),
        Err(2)
    );
}

/// The paths below `src` in the first column of the table of unsafe rooms.
fn unsafe_rooms() -> Vec<String> {
    let page = fs::read_to_string("docs/unsafe.md").unwrap();
    let (_, section) = page.split_once("\n## Modules with unsafe code\n").unwrap();
    let section = section.split("\n## ").next().unwrap();
    let rows = section.lines().skip_while(|line| !line.starts_with("|---"));
    let rows = rows.skip(1).take_while(|line| line.starts_with('|'));
    let cells = rows.map(|row| row.split('|').nth(1).unwrap());
    cells.flat_map(|cell| cell.split('`').skip(1).step_by(2)).map(str::to_owned).collect()
}

/// Whether a room is this file, or a folder that contains it.
fn is_room_of(room: &str, file: &str) -> bool {
    if room.ends_with('/') { file.starts_with(room) } else { file == room }
}

/// docs/unsafe.md names each file that allows unsafe code, by itself or by its folder, and no other
/// file.
#[test]
fn the_unsafe_rooms_match_the_table() {
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

/// The suggestions in a compiler message: the lines that each `help` shows, unless they are quoted
/// from a file, and its words, unless they list the implementors of a trait.
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

/// Whether the module of this name in a file of `src` is private.
fn is_private(file: &Path, module: &str) -> bool {
    let text = fs::read_to_string(file).unwrap_or_default();
    let mut heads = text.lines().filter_map(|line| line.trim_start().split_once("mod "));
    heads.any(|(head, rest)| {
        let name = rest.split([';', ' ']).next();
        name == Some(module) && (head.is_empty() || head.starts_with("pub("))
    })
}

/// The paths of this crate in a text that lead through a private module.
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

/// The cases that the test above must find: an import, a path within a line, and a path in words.
/// Other mentions of the crate in a message are not suggestions, and public paths are allowed.
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
9 | pub use proverbs::in_flight::Ring;
  | ^^^^^^^
  = note: required by `proverbs::in_flight::Room`
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
