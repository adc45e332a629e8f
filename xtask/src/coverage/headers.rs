//! What the C headers declare: functions, and the names in enums and structs.
//!
//! They are read as they are, without a preprocessor: what rdma-core's headers do with macros is
//! little, and a name that is there under a condition is a name too.

use std::collections::BTreeMap;
use std::path::Path;
use std::{fs, iter};

use anyhow::{Context, Result, ensure};

/// Those that programs include, and what names in them begin with.
pub const HEADERS: [(&str, &[&str]); 5] = [
    ("infiniband/verbs.h", &["ibv_", "IBV_", "mult_to_ibv_", "mbps_to_ibv_"]),
    ("infiniband/verbs_api.h", &["IBV_"]),
    ("rdma/rdma_cma.h", &["rdma_", "RDMA_", "RAI_"]),
    ("rdma/rdma_verbs.h", &["rdma_"]),
    ("rdma/rsocket.h", &["r", "RDMA_", "SOL_"]),
];

/// What kind of name it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Function,
    /// Of an enum, or by `#define`.
    Constant,
    /// Of a struct or union: `ibv_qp_attr.qp_state`.
    Field,
}

/// Where a name is declared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Declared {
    pub kind: Kind,
    pub header: &'static str,
    /// The enum or struct that it is in; empty for what has none.
    pub of: String,
}

pub type Names = BTreeMap<String, Declared>;

/// Adds the names of the headers below a directory.
pub fn read(include: &Path, names: &mut Names) -> Result<()> {
    for (header, prefixes) in HEADERS {
        let path = include.join(header);
        let text =
            fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let found = parse(&text)
            .into_iter()
            .filter(|(name, ..)| prefixes.iter().any(|prefix| name.starts_with(prefix)));
        let before = names.len();
        names.extend(found.map(|(name, kind, of)| (name, Declared { kind, header, of })));
        let known = names.values().any(|declared| declared.header == header);
        ensure!(names.len() > before || known, "{}: no names were read", path.display());
    }
    Ok(())
}

type Found = Vec<(String, Kind, String)>;

fn parse(text: &str) -> Found {
    let (code, mut found) = without_lines(&without_comments(text));
    let tokens = tokens(&code);
    let mut statement: Vec<&str> = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        match tokens[at] {
            ";" => {
                function(&statement, &mut found);
                statement.clear();
            }
            "{" => {
                let end = block(&tokens, at);
                let body = &tokens[at + 1..end];
                at = end;
                if statement.contains(&"(") {
                    function(&statement, &mut found);
                    statement.clear();
                } else if statement.contains(&"enum") {
                    enumerators(body, name_of(&statement), &mut found);
                } else if statement.contains(&"struct") || statement.contains(&"union") {
                    fields(body, name_of(&statement), "", &mut found);
                }
            }
            token => statement.push(token),
        }
        at += 1;
    }
    found
}

fn without_comments(text: &str) -> String {
    let mut parts = text.split("/*");
    let first = parts.next().unwrap_or_default();
    let rest = parts.map(|part| part.split_once("*/").map_or("", |(_, code)| code));
    let code: Vec<&str> = iter::once(first).chain(rest).collect();
    let lines = code.join(" ").replace("\\\n", " ");
    lines.lines().flat_map(|line| [line.split("//").next().unwrap_or_default(), "\n"]).collect()
}

/// The code without the preprocessor's lines and what is for C++ only, and the constants that are
/// defined there.
fn without_lines(text: &str) -> (String, Found) {
    let (mut code, mut found, mut skipped) = (String::new(), Vec::new(), 0);
    for line in text.lines() {
        let Some(directive) = line.trim_start().strip_prefix('#') else {
            if skipped == 0 {
                code.extend([line, "\n"]);
            }
            continue;
        };
        let directive = directive.trim_start();
        if skipped > 0 {
            skipped += i32::from(directive.starts_with("if"));
            skipped -= i32::from(directive.starts_with("endif"));
        } else if directive.starts_with("ifdef __cplusplus") {
            skipped = 1;
        } else if let Some(definition) = directive.strip_prefix("define ") {
            let name = definition.trim_start().split(|c: char| !is_word(c)).next();
            let name = name.unwrap_or_default();
            // In small letters it is a function's other form, and a guard has no value.
            let has_value = definition.trim() != name;
            if has_value && !name.contains(|c: char| c.is_ascii_lowercase()) {
                found.push((name.to_owned(), Kind::Constant, String::new()));
            }
        }
    }
    (code, found)
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// Words, and every other character alone.
fn tokens(code: &str) -> Vec<&str> {
    let words = code.split(|c: char| c.is_whitespace()).filter(|word| !word.is_empty());
    let mut all = Vec::new();
    for mut word in words {
        while let Some(first) = word.chars().next() {
            let end = word.find(|c| !is_word(c)).unwrap_or(word.len());
            let (token, rest) = word.split_at(if is_word(first) { end } else { first.len_utf8() });
            all.push(token);
            word = rest;
        }
    }
    all
}

/// Where the block ends that begins here.
fn block(tokens: &[&str], start: usize) -> usize {
    let mut depth = 0;
    for (at, token) in tokens.iter().enumerate().skip(start) {
        depth += i32::from(*token == "{") - i32::from(*token == "}");
        if depth == 0 {
            return at;
        }
    }
    tokens.len()
}

fn function(statement: &[&str], found: &mut Found) {
    let name = statement.iter().position(|token| *token == "(").and_then(|at| at.checked_sub(1));
    if let (Some(at), false) = (name, statement[0] == "typedef") {
        found.push((statement[at].to_owned(), Kind::Function, String::new()));
    }
}

/// What an enum or struct is called, behind whose name a block begins.
fn name_of<'a>(statement: &[&'a str]) -> &'a str {
    match statement.last() {
        Some(&"enum" | &"struct" | &"union") | None => "",
        Some(name) => name,
    }
}

fn enumerators(body: &[&str], of: &str, found: &mut Found) {
    for one in body.split(|token| *token == ",") {
        // A comma may be in an expression; what comes behind it begins with no name of ours.
        if let Some(name) = one.first() {
            found.push(((*name).to_owned(), Kind::Constant, of.to_owned()));
        }
    }
}

/// Fields by the names that C gives them: those of a struct without a name are the outer one's.
fn fields(body: &[&str], of: &str, path: &str, found: &mut Found) {
    let push = |name: &str, found: &mut Found| {
        found.push((format!("{of}.{path}{name}"), Kind::Field, of.to_owned()));
    };
    let (mut at, mut statement, mut inner) = (0, Vec::new(), None);
    while at < body.len() {
        match body[at] {
            "{" => {
                let end = block(body, at);
                if statement.contains(&"enum") {
                    enumerators(&body[at + 1..end], name_of(&statement), found);
                } else {
                    inner = Some(&body[at + 1..end]);
                }
                statement.clear();
                at = end;
            }
            ";" => {
                match inner.take() {
                    Some(body) => {
                        let prefix = match statement.iter().find(|token| token.starts_with(is_word))
                        {
                            Some(name) => format!("{path}{name}."),
                            None => path.to_owned(),
                        };
                        fields(body, of, &prefix, found);
                    }
                    None => names(&statement).into_iter().for_each(|name| push(name, found)),
                }
                statement.clear();
            }
            token => statement.push(token),
        }
        at += 1;
    }
}

/// The names that a declaration gives.
fn names<'a>(statement: &[&'a str]) -> Vec<&'a str> {
    // A pointer to a function: (*name)(..).
    if let Some(at) = statement.windows(2).position(|two| two == ["(", "*"]) {
        return statement.get(at + 2).copied().into_iter().collect();
    }
    let last_word = |part: &[&'a str]| {
        let end = part.iter().position(|token| ["[", ":"].contains(token)).unwrap_or(part.len());
        part[..end].iter().rev().find(|token| token.starts_with(is_word)).copied()
    };
    statement.split(|token| *token == ",").filter_map(last_word).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = "
        #ifdef __cplusplus
        extern \"C\" {
        #endif
        #define IBV_GUARD
        #define IBV_LIMIT 5 /* { */
        #define ibv_call(a) other(a)
        enum ibv_kind { IBV_ONE = 1 << 0, IBV_TWO, };
        struct ibv_thing {
            struct ibv_pd *pd, *other;
            union { int a; struct { int x[2]; } b; };
            struct { int c:3; } in;
            enum ibv_inner { IBV_INNER } kind;
            int (*call)(int n, void *p);
        };
        typedef int (*ibv_callback)(int);
        int ibv_outside(struct ibv_thing *thing, int (*f)(int)) __attribute__((const));
        static inline int ibv_inline(int n) { if (n) { return 1; } return 2; }
        #ifdef __cplusplus
        }
        #endif";

    #[test]
    fn all_kinds_of_names_are_found() {
        let of = |wanted: Kind| {
            let all = parse(HEADER).into_iter().filter(|(_, kind, _)| *kind == wanted);
            all.map(|(name, ..)| name).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(of(Kind::Function), "ibv_outside ibv_inline");
        assert_eq!(of(Kind::Constant), "IBV_LIMIT IBV_ONE IBV_TWO IBV_INNER");
        let fields = ["pd", "other", "a", "b.x", "in.c", "kind", "call"];
        assert_eq!(of(Kind::Field), fields.map(|name| format!("ibv_thing.{name}")).join(" "));
    }
}
