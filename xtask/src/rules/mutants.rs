//! The mutants: a rule of the crate taken away, or something illegal made legal.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::table::{STATES, TRANSPORTS, Tables};

pub struct Mutant {
    pub kind: Kind,
    /// What it does.
    pub what: String,
    pub file: String,
    /// The file with the change.
    pub text: String,
    /// Names in the messages that should go.
    pub names: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    IllegalImpl,
    LostImpl,
    LostBound,
    Emitted,
}

/// What the traits of `src/diagnostics.rs` ask for.
const NEVER: &str = "{ fn never<R>(&self) -> R { unreachable!() } }";

pub fn all(root: &Path, tables: &Tables) -> Result<Vec<Mutant>> {
    let mut all = illegal(root, tables)?;
    all.extend(lost_impls(root)?);
    // (The loopback device is for tests.)
    let is_product = |file: &str| {
        file.ends_with(".rs") && !file.contains("tests") && !file.starts_with("src/loopback")
    };
    for (file, text) in crate::mutants::sources(root)?.iter().filter(|(file, _)| is_product(file)) {
        all.extend(lost_bounds(file, text));
    }
    all.extend(super::emitted::all(root)?);
    Ok(all)
}

pub(super) fn read(root: &Path, file: &str) -> Result<String> {
    fs::read_to_string(root.join(file)).with_context(|| format!("cannot read {file}"))
}

/// Every cell of the tables that does not hold, as an impl.
fn illegal(root: &Path, tables: &Tables) -> Result<Vec<Mutant>> {
    let mut all = Vec::new();
    for table in tables.all() {
        let file = match table.name.as_str() {
            "opcode" | "initiator" | "fence" | "signaled" | "state" | "fail" | "sqe"
            | "receive" | "shared" | "unsignaled" => "src/rules/mod.rs",
            "solicited" | "inline" => "src/work/opcode/bounds.rs",
            "macros" | "slices" => "src/diagnostics.rs",
            "rights" | "export" => "src/memory/rights.rs",
            "data" => "src/work/data.rs",
            // Those of the others are made from these, or from numbers.
            _ => continue,
        };
        let text = read(root, file)?;
        for row in table.rows().filter(|row| !row.contains("u8")) {
            let columns = table.columns.iter().filter(|column| !table.holds(row, column));
            all.extend(columns.map(|column| {
                let line = format!("impl {} for {row} {{}}", table.bound(column));
                let body = if file.ends_with("diagnostics.rs") { NEVER } else { "{}" };
                let code = line.replace("{}", body);
                Mutant {
                    kind: Kind::IllegalImpl,
                    text: format!("{text}\nmod mutant {{ use super::*; use crate::*; {code} }}\n"),
                    file: file.to_owned(),
                    names: vec![table.bound(column)],
                    what: line,
                }
            }));
        }
    }
    all.extend(illegal_transitions(root, tables)?);
    Ok(all)
}

/// One transition more of each attribute struct, on each transport.
fn illegal_transitions(root: &Path, tables: &Tables) -> Result<Vec<Mutant>> {
    let file = "src/qp/modify.rs";
    let text = read(root, file)?;
    let mut all = Vec::new();
    for row in &tables.transition.rows {
        let attr = &row[0];
        for transport in TRANSPORTS {
            let leads = |from: &&str| tables.transition.leads(attr, transport, from).is_none();
            let from =
                STATES.into_iter().find(leads).context("no struct leads from every state")?;
            let of = if matches!(attr.as_str(), "RcRts" | "RcSqd" | "XrcRts" | "XrcSqd") {
                "<P>"
            } else {
                ""
            };
            let head = format!("Transition<{transport}, {from}, P> for {attr}{of}");
            let body = "{ type To = Rts; fn fill(&self, _: &mut Attr) {} }";
            all.push(Mutant {
                kind: Kind::IllegalImpl,
                what: format!("impl<P: Profile> {head}"),
                file: file.to_owned(),
                text: format!("{text}\nimpl<P: Profile> {head} {body}\n"),
                names: vec!["Transition".into()],
            });
        }
    }
    Ok(all)
}

/// Every impl that is a cell of a table.
fn lost_impls(root: &Path) -> Result<Vec<Mutant>> {
    let mut all = lost_impls_of(root, "src/rules/mod.rs")?;
    all.extend(lost_impls_of(root, "src/work/opcode/send.rs")?);
    all.extend(lost_impls_of(root, "src/work/opcode/write.rs")?);
    Ok(all)
}

fn lost_impls_of(root: &Path, file: &'static str) -> Result<Vec<Mutant>> {
    let text = read(root, file)?;
    let lines = text.lines().filter(|line| {
        line.starts_with("impl") && line.ends_with("{}") && !line.contains("Sealed")
    });
    let mutant = |line: &str| Mutant {
        kind: Kind::LostImpl,
        what: line.to_owned(),
        file: file.to_owned(),
        text: text.replacen(&format!("{line}\n"), "", 1),
        names: Vec::new(),
    };
    Ok(lines.map(mutant).collect())
}

/// The type that an `impl` line is about, without its parameters.
fn implemented(line: &str) -> &str {
    let mut depth = 0;
    let after = line["impl".len()..].find(|c| {
        depth += i32::from(c == '<') - i32::from(c == '>');
        depth == 0 && c == ' '
    });
    let head = after.map_or("", |at| &line["impl".len() + at + 1..]);
    let of = head.split_once(" for ").map_or(head, |(_, of)| of);
    of.trim_start_matches(['&', '\'']).split(['<', ' ', '{']).next().unwrap_or(of)
}

/// Every bound in a where-clause, and the bounds of the constructors' data; but for those of
/// private functions, whose callers have them.
fn lost_bounds(file: &str, text: &str) -> Vec<Mutant> {
    let lines: Vec<&str> = text.lines().collect();
    let mut all = Vec::new();
    let (mut in_where, mut is_public, mut owner, mut function) = (false, true, "", String::new());
    for (at, line) in lines.iter().enumerate() {
        let code = line.trim();
        if code.starts_with("//") {
            continue;
        }
        // Named by type and function, not by line: what else changes in the file is no news of the
        // mutant.
        if line.starts_with("impl") {
            (owner, is_public) = (implemented(line), true);
            function = format!("impl {owner}");
        } else if *line == "}" {
            owner = "";
        }
        if let Some(name) = code.split_once("fn ").map(|(_, name)| name) {
            let name = name.split(['(', '<']).next().unwrap_or(name);
            function = if owner.is_empty() { name.to_owned() } else { format!("{owner}::{name}") };
            is_public = code.starts_with("pub ");
        }
        let mut push = |new: String, lost: &str| {
            let mut changed: Vec<&str> = lines.clone();
            changed[at] = &new;
            let ident = |c: char| !c.is_alphanumeric() && c != '_';
            all.push(Mutant {
                kind: Kind::LostBound,
                what: format!("{file}, `{function}`: without `{lost}`"),
                file: file.to_owned(),
                text: changed.join("\n") + "\n",
                names: lost.split(ident).filter(|w| w.len() > 2).map(str::to_owned).collect(),
            });
        };
        if code == "where" || code.ends_with(") where") {
            in_where = true;
        } else if code.ends_with('{') || code == "}" || code.ends_with(';') {
            in_where = false;
        } else if let Some((subject, bounds)) = code.split_once(": ").filter(|_| in_where) {
            let bounds: Vec<&str> = bounds.trim_end_matches(',').split(" + ").collect();
            // (`?Sized` is no bound.)
            for lost in bounds.iter().filter(|lost| is_public && !lost.starts_with('?')) {
                let rest: Vec<_> = bounds.iter().filter(|b| *b != lost).copied().collect();
                let gap = if rest.is_empty() { "" } else { " " };
                let new = format!("        {subject}:{gap}{},", rest.join(" + "));
                push(new, &format!("{subject}: {lost}"));
            }
        }
        // `pub fn new<D: Source>(`.
        for bound in ["D: Source", "D: Sink", "D: AtomicSink", "O: InlineOp"] {
            if is_public && code.contains("fn ") && code.contains(bound) {
                push(line.replacen(bound, &bound[..1], 1), bound);
            }
        }
        if code.starts_with("impl<D: RecvSink>") {
            push(line.replacen("D: RecvSink", "D", 1), "D: RecvSink");
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::implemented;

    #[test]
    fn the_type_of_an_impl() {
        for (line, of) in [
            ("impl RdmaRead {", "RdmaRead"),
            ("impl<'d, T: Transport, const G: usize> SendList<'d, T, P, G>", "SendList"),
            ("impl<T, P: Profile<Entry = Raw>> SendPost<'_, T, P> {", "SendPost"),
            ("impl<E: Entry> Ledger<E> for Credits<E> {", "Credits"),
        ] {
            assert_eq!(implemented(line), of);
        }
    }
}
