//! The public calls, read from the functions in tests/programs/src/calls. The signature of each
//! gives its arguments, results and borrows.

use std::collections::BTreeMap;
use std::fs;
use std::ops::Range;

use anyhow::{Context, Result, bail, ensure};
use proc_macro2::TokenTree;
use syn::spanned::Spanned;
use syn::{Expr, FnArg, Item, ItemFn, Meta, Pat, PathArguments, ReturnType, Stmt, Type};

use super::term::Term;
use crate::paths;

/// Special treatment of values of these types. All values are dropped, forgotten, moved, swapped
/// with others of their type, stored in a Vec, and alive during a panic.
///
/// | word | meaning |
/// |---|---|
/// | `send` | it may go to another thread |
/// | `sync` | threads may share it |
/// | `few` | a program has few of them, and rarely loses one |
/// | `eager` | it blocks other values while it lives, so it is used soon |
/// | `plain` | forgetting it loses nothing |
/// | `copy`; `qp`, `srq`, `cq` | the kind of value |
const VALUES: &[(&str, &str)] = &[
    ("Context Pd Pool Arena Channel Events LoudArena", "send few"),
    ("Cq", "send cq"),
    ("Qp Connector", "send qp"),
    ("Srq", "send srq"),
    (
        "Ah Buf SharedBuf BufList AnyBuf OpenBuf LoudPool LoudBuf Rejected NestPool NestBuf Window Ended Bound Lent OneWindow OneBound \
         DetachedCompletion",
        "send",
    ),
    ("AhIndex Dest Slice RoceV2Gid", "send copy"),
    ("Region PoolIn ArenaIn Table WindowRegion All Given", "send sync"),
    ("Completions Completion Released SendList RecvList Vec", "eager"),
    ("SendSlots RecvSlots", "plain"),
    ("Endpoint Octets Words Leaked Mapping Pages SharedMapping Proof", "send plain"),
    ("Vector", "send sync plain"),
];

/// The entries of a profile's queues.
const ENTRIES: &[(&str, &str)] = &[
    ("DefaultProfile Ring Direct Served ServedRing", "Buf"),
    ("Lists Huge", "BufList"),
    ("Mixed MixedRing", "AnyBuf"),
    ("Noisy NoisyRing", "LoudBuf"),
    ("Nests", "NestBuf"),
];

/// The words of a type.
#[derive(Clone, Copy, Default)]
pub struct Value(&'static str);

impl Value {
    pub fn is(self, word: &str) -> bool {
        self.0.split(' ').any(|it| it == word)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Value,
    Shared,
    Exclusive,
}

pub struct Arg {
    pub name: String,
    pub mode: Mode,
    pub ty: Term,
}

pub enum Where {
    /// The variable is one of these.
    In(String, Vec<String>),
    /// The variable is the entry of another, which is a profile.
    Entry(String, String),
}

/// The sets of types that a variable may be, by name.
type Sets = BTreeMap<String, Vec<String>>;

pub struct Row {
    pub name: String,
    pub takes: Vec<Arg>,
    pub wheres: Vec<Where>,
    pub gives: Vec<Term>,
    pub borrows: Vec<usize>,
    pub inherits: Vec<usize>,
    pub on: Vec<usize>,
    pub kin: Vec<usize>,
    pub at: Option<(usize, usize)>,
    pub code: String,
    /// The choices of each turn, by the name in the code.
    pub pick: Vec<(String, Vec<String>)>,
    pub weight: u32,
    pub panics: bool,
    pub settles: Option<usize>,
    pub flags: Vec<String>,
}

pub struct Table {
    pub rows: Vec<Row>,
    pub values: BTreeMap<String, Value>,
}

pub fn read() -> Result<Table> {
    let folder = paths::workspace().join("tests/programs/src/calls");
    let read = |name: &str| {
        let path = folder.join(name);
        fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
    };
    let sets = sets(&read("sets.rs")?).context("sets.rs")?;
    let values = values();
    let mut names = Vec::new();
    for entry in fs::read_dir(&folder).with_context(|| format!("{}", folder.display()))? {
        names.push(entry?.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    let mut rows = Vec::new();
    for name in names.iter().filter(|name| !["mod.rs", "sets.rs"].contains(&name.as_str())) {
        let text = read(name)?;
        let file = syn::parse_file(&text).with_context(|| name.clone())?;
        for item in file.items {
            if let Item::Fn(function) = item {
                let what = || format!("`{}` in {name}", function.sig.ident);
                rows.push(row(&function, &text, &sets, &values).with_context(what)?);
            }
        }
    }
    Ok(Table { rows, values })
}

fn values() -> BTreeMap<String, Value> {
    let of = |(names, words): &(&str, &'static str)| {
        let words = Value(words);
        names.split(' ').map(|name| (name.to_owned(), words)).collect::<Vec<_>>()
    };
    VALUES.iter().flat_map(of).collect()
}

/// `sets! { NAME: MEMBER MEMBER; .. }`
fn sets(text: &str) -> Result<Sets> {
    let file = syn::parse_file(text)?;
    let is_it = |item: &&Item| matches!(item, Item::Macro(it) if it.mac.path.is_ident("sets"));
    let Some(Item::Macro(all)) = file.items.iter().find(is_it) else { bail!("no `sets!`") };
    let (mut sets, mut words) = (Sets::new(), Vec::new());
    for token in all.mac.tokens.clone() {
        match token {
            TokenTree::Ident(word) => words.push(word.to_string()),
            TokenTree::Punct(it) if it.as_char() == ';' => {
                ensure!(words.len() > 1, "a set without members");
                sets.insert(words.remove(0), std::mem::take(&mut words));
            }
            _ => {}
        }
    }
    Ok(sets)
}

fn row(
    function: &ItemFn,
    text: &str,
    sets: &Sets,
    values: &BTreeMap<String, Value>,
) -> Result<Row> {
    let mut takes: Vec<Arg> = Vec::new();
    // The lifetimes of each argument: of its reference, and in its type.
    let mut lives: Vec<(Vec<String>, Vec<String>)> = Vec::new();
    for arg in function.sig.inputs.iter().skip(1) {
        let FnArg::Typed(arg) = arg else { bail!("a method") };
        let Pat::Ident(name) = &*arg.pat else { bail!("an argument without a name") };
        let (mode, ty, outer) = match &*arg.ty {
            Type::Reference(it) => {
                let mode = if it.mutability.is_some() { Mode::Exclusive } else { Mode::Shared };
                (mode, &*it.elem, it.lifetime.iter().map(|it| it.ident.to_string()).collect())
            }
            ty => (Mode::Value, ty, Vec::new()),
        };
        let mut inner = Vec::new();
        let ty = term(ty, sets, &mut inner)?;
        takes.push(Arg { name: name.ident.to_string(), mode, ty });
        lives.push((outer, inner));
    }
    let mut lent = Vec::new();
    let mut gives = Vec::new();
    if let ReturnType::Type(_, ty) = &function.sig.output {
        let all: Vec<&Type> = match &**ty {
            Type::Tuple(all) => all.elems.iter().collect(),
            ty => vec![ty],
        };
        for ty in all {
            let mut option = term(ty, sets, &mut lent)?;
            ensure!(
                option.name == "Option" && option.args.len() == 1,
                "it does not return an Option"
            );
            gives.extend(option.args.pop());
        }
    }
    let is_lent = |names: &Vec<String>| names.iter().any(|it| it != "_" && lent.contains(it));
    let borrows = (0..lives.len()).filter(|at| is_lent(&lives[*at].0)).collect();
    let inherits = (0..lives.len()).filter(|at| is_lent(&lives[*at].1)).collect();
    for ty in takes.iter().map(|arg| &arg.ty).chain(&gives) {
        let is_known = ty.is_variable || values.contains_key(&ty.name);
        ensure!(is_known, "`{}` is not among the values", ty.name);
    }
    let (pick, code) = body(function, text)?;
    let wheres = wheres(&takes, &gives, &code, sets);
    let mut row = Row {
        name: function.sig.ident.to_string(),
        takes,
        wheres,
        gives,
        borrows,
        inherits,
        on: Vec::new(),
        kin: Vec::new(),
        at: None,
        code,
        pick,
        weight: 0,
        panics: false,
        settles: None,
        flags: Vec::new(),
    };
    words(&mut row, &doc(function))?;
    ensure!(row.weight > 0, "it has no weight");
    ensure!(!row.panics || row.gives.is_empty(), "it may panic, so it cannot have a result");
    Ok(row)
}

/// The documentation as one line.
fn doc(function: &ItemFn) -> String {
    let lines = function.attrs.iter().filter_map(|attr| match &attr.meta {
        Meta::NameValue(it) if it.path.is_ident("doc") => match &it.value {
            Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }) => Some(text.value()),
            _ => None,
        },
        _ => None,
    });
    lines.collect()
}

/// The options in the documentation: `weight 8; kin pd cq; on cq`.
fn words(row: &mut Row, doc: &str) -> Result<()> {
    for part in doc.split(';') {
        let words: Vec<&str> = part.split_whitespace().collect();
        let [word, args @ ..] = &words[..] else { bail!("two `;` without a word") };
        let at = |name: &&str| {
            let found = row.takes.iter().position(|arg| arg.name == **name);
            found.with_context(|| format!("it takes no `{name}`"))
        };
        match (*word, args) {
            ("weight", [weight]) => row.weight = weight.parse().context("its weight")?,
            ("kin", args) => row.kin = args.iter().map(at).collect::<Result<_>>()?,
            ("on", args) => row.on = args.iter().map(at).collect::<Result<_>>()?,
            ("at", [qp, cq]) => row.at = Some((at(qp)?, at(cq)?)),
            ("settles", [cq]) => row.settles = Some(at(cq)?),
            ("panics", []) => row.panics = true,
            ("open" | "forgets" | "alone", []) => row.flags.push((*word).to_owned()),
            _ => bail!("`{}` is unknown", part.trim()),
        }
    }
    Ok(())
}

/// A type, and the lifetimes in it.
fn term(ty: &Type, sets: &Sets, lives: &mut Vec<String>) -> Result<Term> {
    let Type::Path(path) = ty else { bail!("a type without a name") };
    let last = path.path.segments.last().context("an empty path")?;
    let mut args = Vec::new();
    if let PathArguments::AngleBracketed(all) = &last.arguments {
        for arg in &all.args {
            match arg {
                syn::GenericArgument::Lifetime(it) => lives.push(it.ident.to_string()),
                syn::GenericArgument::Type(ty) => args.push(term(ty, sets, lives)?),
                _ => bail!("an argument that is not a type"),
            }
        }
    }
    let name = last.ident.to_string();
    if name == "EntryOf" {
        let of = args.first().context("`EntryOf` of nothing")?;
        return Ok(Term::variable(format!("EntryOf<{of}>")));
    }
    let is_variable = args.is_empty() && (name.len() == 1 || sets.contains_key(&name));
    Ok(Term { name, args, is_variable })
}

/// The possible values of its variables: members of sets, and then entries of profiles.
fn wheres(takes: &[Arg], gives: &[Term], code: &str, sets: &Sets) -> Vec<Where> {
    let signature: Vec<String> =
        takes.iter().map(|arg| &arg.ty).chain(gives).map(Term::to_string).collect();
    let text = format!("{} {code}", signature.join(" "));
    let (mut all, mut entries): (Vec<Where>, Vec<Where>) = Default::default();
    let mut seen = Vec::new();
    let mut last = "";
    for word in text.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|it| !it.is_empty()) {
        if last == "EntryOf" && !seen.contains(&(last, word)) {
            seen.push((last, word));
            entries.push(Where::Entry(format!("EntryOf<{word}>"), word.to_owned()));
        }
        if let Some(set) = sets.get(word).filter(|_| !seen.contains(&("", word))) {
            seen.push(("", word));
            all.push(Where::In(word.to_owned(), set.clone()));
        }
        last = word;
    }
    all.extend(entries);
    all
}

/// The entry of a profile.
pub fn entry_of(profile: &str) -> Option<&'static str> {
    ENTRIES.iter().find(|(profiles, _)| profiles.split(' ').any(|it| it == profile)).map(|it| it.1)
}

type Picks = Vec<(String, Vec<String>)>;

/// Its choices, from `let NAME = w.pick(0, [..]);` at its beginning, and the rest as one line.
fn body(function: &ItemFn, text: &str) -> Result<(Picks, String)> {
    let mut picks = Vec::new();
    let mut rest = function.block.stmts.iter().peekable();
    while let Some((name, words)) = rest.peek().and_then(|it| pick(it)) {
        let word = |word: &Expr| line(text, word.span().byte_range());
        picks.push((name, words.elems.iter().map(word).collect()));
        rest.next();
    }
    let all: Vec<_> = rest.collect();
    let code = match (all.first(), all.last()) {
        (Some(first), Some(last)) => {
            line(text, first.span().byte_range().start..last.span().byte_range().end)
        }
        _ => String::new(),
    };
    ensure!(!code.contains("w.pick("), "it calls `pick` after its beginning");
    Ok((picks, code))
}

/// `let NAME = w.pick(0, [..]);`
fn pick(statement: &Stmt) -> Option<(String, &syn::ExprArray)> {
    let Stmt::Local(local) = statement else { return None };
    let (Pat::Ident(name), Some(init)) = (&local.pat, &local.init) else { return None };
    let Expr::MethodCall(call) = &*init.expr else { return None };
    match call.args.last() {
        Some(Expr::Array(words)) if call.method == "pick" => Some((name.ident.to_string(), words)),
        _ => None,
    }
}

/// A piece of the source as one line, without comments.
fn line(text: &str, at: Range<usize>) -> String {
    let lines = text[at].lines().map(str::trim).filter(|line| !line.starts_with("//"));
    lines.collect::<Vec<_>>().join(" ")
}

/// The code with each of these words replaced. A replacement may have type arguments.
pub fn replace(code: &str, words: &[(String, String)]) -> String {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let (mut text, mut rest) = (String::new(), code);
    while let Some(start) = rest.find(is_word) {
        text.push_str(&rest[..start]);
        rest = &rest[start..];
        let end = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
        let found = words.iter().find(|(word, _)| {
            rest.starts_with(&**word) && !rest[word.len()..].starts_with(is_word)
        });
        match found {
            Some((word, by)) => {
                text.push_str(by);
                rest = &rest[word.len()..];
            }
            None => {
                text.push_str(&rest[..end]);
                rest = &rest[end..];
            }
        }
    }
    text + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_calls_can_be_read() {
        let table = read().expect("they are in order");
        assert!(table.rows.len() > 300);
    }

    #[test]
    fn words_are_replaced_and_parts_of_words_are_not() {
        let words = [("EntryOf<P>", "Buf"), ("P", "Ring"), ("n", "3")];
        let words = words.map(|(word, by)| (word.to_owned(), by.to_owned()));
        assert_eq!(
            replace("f::<EntryOf<P>, P>(n, in_n, nP)", &words),
            "f::<Buf, Ring>(3, in_n, nP)"
        );
    }
}
