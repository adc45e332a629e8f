//! Each name that the C headers declare has an item in this crate, or a reason in `absent.txt`.
//!
//! The item is the one whose documentation has the C name as an alias, which is also how users find
//! it. A field is found by its own name, in a file where an item stands for its struct. Part
//! `bindings` of `cargo xtask test` runs this on the installed headers, and on the newest in
//! Debian.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

const HEADERS: [&str; 4] =
    ["infiniband/verbs.h", "infiniband/verbs_api.h", "rdma/rdma_cma.h", "rdma/rdma_verbs.h"];

/// The reasons, and the most lines that they may have.
const ABSENT: &str = include_str!("absent.txt");
const MOST_LINES: usize = 80;

#[test]
#[ignore = "reads the C headers: part `bindings`"]
fn each_c_name_has_an_item_or_a_reason() {
    let mut names = BTreeSet::new();
    let newest = std::env::var("PROVERBS_HEADERS").ok();
    for include in ["/usr/include"].into_iter().chain(newest.as_deref()) {
        for header in HEADERS {
            let path = Path::new(include).join(header);
            let text = fs::read_to_string(&path)
                .unwrap_or_else(|error| panic!("cannot read {}: {error}", path.display()));
            let found = declared(&text);
            assert!(!found.is_empty(), "{}: no names were read", path.display());
            names.extend(found);
        }
    }
    let files: Vec<Public> = sources().iter().map(|path| public(path)).collect();
    let lines = ABSENT.lines().filter(|line| line.starts_with(' '));
    let absent: Vec<&str> = lines.flat_map(str::split_whitespace).collect();
    assert!(ABSENT.lines().count() <= MOST_LINES, "absent.txt has more than {MOST_LINES} lines");

    let mut faults = Vec::new();
    for name in &names {
        let is_here = files.iter().any(|file| file.stands_for(name));
        let alias = files.iter().find(|file| file.has_alias(name));
        match (alias, absent.iter().find(|pattern| matches(pattern, name))) {
            (Some(file), Some(pattern)) => {
                faults.push(format!("{name}: an alias in {}, and absent as {pattern}", file.path));
            }
            (None, None) if !is_here => faults.push(format!("{name}: no alias and no reason")),
            _ => {}
        }
    }
    assert!(
        faults.is_empty(),
        "{}\n{} faults of {} names.\nNext: add `#[doc(alias = \"..\")]` to the item, or a reason to \
         tests/absent.txt",
        faults.join("\n"),
        faults.len(),
        names.len()
    );
}

/// The names in a source file that a documentation search finds.
struct Public {
    path: String,
    aliases: BTreeSet<String>,
    /// Functions, fields and variants.
    items: BTreeSet<String>,
}

impl Public {
    /// Whether a C name is an alias; for a field, the field itself must be found, not only its
    /// struct.
    fn has_alias(&self, name: &str) -> bool {
        let (of, field) = name.split_once('.').unwrap_or((name, name));
        self.aliases.contains(of) && self.aliases.contains(field)
    }

    fn stands_for(&self, name: &str) -> bool {
        let (of, field) = name.split_once('.').unwrap_or((name, name));
        self.has_alias(name)
            || self.items.contains(field) && (of == name || self.aliases.contains(of))
    }
}

fn sources() -> Vec<PathBuf> {
    // The items that programs find below `proverbs`: its own, and those that it re-exports.
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut paths: Vec<_> =
        ["src", "sys/src", "loopback/src"].iter().map(|folder| root.join(folder)).collect();
    let mut files = Vec::new();
    while let Some(path) = paths.pop() {
        if path.is_dir() {
            let inside = fs::read_dir(&path).expect("a directory of sources");
            paths.extend(inside.map(|entry| entry.expect("an entry").path()));
        } else if path.extension().is_some_and(|kind| kind == "rs") {
            files.push(path);
        }
    }
    files
}

fn public(path: &Path) -> Public {
    let text = fs::read_to_string(path).expect("a source file");
    let after = |start| text.split(start).skip(1);
    let aliases = after("#[doc(alias").flat_map(|rest| {
        let list = rest.split(")]").next().unwrap_or_default();
        list.split('"').skip(1).step_by(2).map(str::to_owned)
    });
    let items =
        after("pub fn ").chain(after("pub const ")).chain(after("pub ")).filter_map(|rest| {
            let name = rest.split(|c: char| !is_word(c)).next()?;
            rest[name.len()..].starts_with(['(', '<', ':']).then(|| name.to_owned())
        });
    Public { path: path.display().to_string(), aliases: aliases.collect(), items: items.collect() }
}

/// Whether a pattern of absent.txt matches the name, or the struct of a field.
fn matches(pattern: &str, name: &str) -> bool {
    let of = name.split('.').next().unwrap_or(name);
    let (start, rest) = pattern.split_once('*').unwrap_or((pattern, ""));
    [name, of].iter().any(|text| match text.strip_prefix(start) {
        Some(end) if pattern.contains('*') => {
            let (middle, last) = rest.rsplit_once('*').unwrap_or(("", rest));
            end.strip_suffix(last).is_some_and(|end| end.contains(middle))
        }
        end => end == Some(""),
    })
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

fn is_ours(word: &str) -> bool {
    ["ibv_", "rdma_", "mult_to_ibv_", "mbps_to_ibv_"].iter().any(|start| word.starts_with(start))
}

fn is_constant(word: &str) -> bool {
    let ours = ["IBV_", "RDMA_", "RAI_"].iter().any(|start| word.starts_with(start));
    ours && !word.ends_with("_H") && !word.contains(|c: char| c.is_ascii_lowercase())
}

/// Functions, types, constants, and fields as `ibv_wc.status`. Fields of a nested struct or union
/// belong to the outer one.
fn declared(text: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let mut code = String::new();
    let text = text.split("/*").map(|part| part.split_once("*/").map_or(part, |(_, code)| code));
    for line in text.collect::<String>().replace("\\\n", " ").lines() {
        match line.trim_start().strip_prefix('#') {
            None => code.extend([line.split("//").next().unwrap_or_default(), "\n"]),
            Some(directive) => {
                let mut words = directive.split_whitespace();
                if let (Some("define"), Some(name), Some(_)) =
                    (words.next(), words.next(), words.next())
                {
                    names.extend(is_constant(name).then(|| name.to_owned()));
                }
            }
        }
    }
    let tokens = tokens(&code);
    // The owner of each open brace: the keyword before it, and the outermost name.
    let mut blocks: Vec<(&str, &str)> = Vec::new();
    for (at, &token) in tokens.iter().enumerate() {
        let before = |n: usize| at.checked_sub(n).map_or("", |at| tokens[at]);
        let next = tokens.get(at + 1).copied().unwrap_or_default();
        let (block, of) = blocks.last().copied().unwrap_or_default();
        let is_type = |word: &str| ["struct", "union", "enum"].contains(&word);
        match token {
            "{" if is_type(before(1)) => blocks.push((before(1), of)),
            "{" if is_type(before(2)) => {
                names.insert(before(1).to_owned());
                blocks.push((before(2), before(1)));
            }
            "{" => blocks.push(("", "")),
            "}" => drop(blocks.pop()),
            _ if is_ours(token) && next == "(" => drop(names.insert(token.to_owned())),
            _ if block == "enum" && is_constant(token) && [",", "=", "}"].contains(&next) => {
                names.insert(token.to_owned());
            }
            _ if ["struct", "union"].contains(&block) && is_ours(of) => {
                let is_name = token.starts_with(|c: char| c.is_ascii_lowercase() || c == '_');
                let is_callback = (before(2), before(1), next) == ("(", "*", ")");
                let ends = [";", ",", "[", ":"].contains(&next) && before(1) != "}";
                let start = tokens[..at].iter().rposition(|token| [";", "{", "}"].contains(token));
                let is_parameter = tokens[start.unwrap_or(0)..at].contains(&"(");
                if is_name && (is_callback || ends && !is_parameter) {
                    names.insert(format!("{of}.{token}"));
                }
            }
            _ => {}
        }
    }
    names
}

/// Words, and every other character separately.
fn tokens(code: &str) -> Vec<&str> {
    let mut all = Vec::new();
    for mut word in code.split_whitespace() {
        while let Some(first) = word.chars().next() {
            let end = word.find(|c| !is_word(c)).unwrap_or(word.len());
            let (token, rest) = word.split_at(if is_word(first) { end } else { first.len_utf8() });
            all.push(token);
            word = rest;
        }
    }
    all
}
