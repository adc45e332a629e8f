//! `RULES.md`: the book for people who decide whether to trust the crate.

use std::collections::BTreeMap;
use std::fmt::Write;

use anyhow::Result;

use super::book::{Book, Entry, Held, Id};
use super::pairs::Case;
use super::proof::Proof;
use super::table::{STATES, TRANSPORTS, Table, Tables};
use crate::wrap::wrap;

pub fn page(book: &Book, tables: &Tables, pairs: &BTreeMap<Id, Case>) -> Result<String> {
    let mut out = String::from(include_str!("page.in"));
    writeln!(out, "\n**{}.**\n", book.summary())?;
    writeln!(out, "| section | {} |", Held::ALL.map(|(_, name)| name).join(" | "))?;
    writeln!(out, "|---{}", "|---:".repeat(Held::ALL.len()) + "|")?;
    for section in &book.sections {
        let rules = || book.entries.iter().filter(|(id, _)| id.0 == section.number);
        let counts = Held::ALL.map(|(held, _)| {
            let n = rules().filter(|(_, entry)| entry.held == held).count();
            if n == 0 { String::new() } else { n.to_string() }
        });
        writeln!(
            out,
            "| [{}. {}](#{}) | {} |",
            section.number,
            section.title,
            anchor(&format!("{}. {}", section.number, section.title)),
            counts.join(" | ")
        )?;
    }
    for (id, entry) in &book.entries {
        if let Some(section) = book.sections.iter().find(|s| s.number == id.0 && id.1 == 1) {
            writeln!(out, "\n## {}. {}\n", section.number, section.title)?;
        }
        rule(&mut out, *id, entry)?;
    }
    truth_tables(&mut out, tables)?;
    c_and_rust(&mut out, book, pairs)?;
    Ok(wrap(&out))
}

/// A heading's anchor, as Markdown renderers make it.
fn anchor(heading: &str) -> String {
    let lower = heading.to_lowercase();
    let kept = lower.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

fn rule(out: &mut String, id: Id, entry: &Entry) -> Result<()> {
    write!(out, "- **{id}** {} ", entry.rule)?;
    writeln!(out, "*({})*  ", entry.source)?;
    write!(out, "  **{}**", entry.held.name())?;
    for text in [&entry.how, &entry.why].into_iter().filter(|text| !text.is_empty()) {
        let mut letters = text.chars();
        let first = letters.next().into_iter().flat_map(char::to_uppercase);
        let sentence: String = first.chain(letters).collect();
        let end = if sentence.ends_with(['.', ')']) { "" } else { "." };
        write!(out, " {sentence}{end}")?;
    }
    out.push('\n');
    let proofs: Vec<_> = entry.proofs.iter().filter_map(|text| link(text)).collect();
    if !proofs.is_empty() {
        // Two blanks end a line of Markdown.
        out.truncate(out.trim_end().len());
        writeln!(out, "  \n  Proof: {}", proofs.join(", "))?;
    }
    Ok(())
}

fn link(proof: &str) -> Option<String> {
    Some(match Proof::parse(proof)? {
        Proof::Ui(name) => {
            let (_, stem) = name.split_once('/')?;
            format!("[{}](ui-tests/{name}.rs)", stem.replace('_', " "))
        }
        Proof::Test(file, function) => format!("[`{function}`]({file})"),
        Proof::Table(name) => format!("[table `{name}`](#table-{name})"),
        Proof::C(file) => format!("[in C](tests/what_c_does/{file})"),
    })
}

fn truth_tables(out: &mut String, tables: &Tables) -> Result<()> {
    out.push_str(include_str!("page_tables.in"));
    for table in tables.all() {
        truth_table(out, table)?;
    }
    let rules = tables.transition.rules.join(", ");
    writeln!(
        out,
        "\n### Table `transition`\n\nEvery transition ({rules}): what it takes, by transport."
    )?;
    writeln!(
        out,
        "`to_error` leads from any state but RESET to ERR, and `reset` from any to RESET.\n"
    )?;
    writeln!(
        out,
        "| from -> to | {} |\n|---{}|",
        TRANSPORTS.join(" | "),
        "|---".repeat(TRANSPORTS.len())
    )?;
    for from in STATES {
        for to in STATES {
            let cells = TRANSPORTS.map(|transport| {
                let attrs = tables.transition.rows.iter().map(|row| row[0].as_str());
                let leads = |attr: &&str| {
                    tables.transition.leads(attr, transport, from).is_some_and(|there| there == to)
                };
                let attrs: Vec<_> = attrs.filter(leads).map(|attr| format!("`{attr}`")).collect();
                attrs.join(", ")
            });
            if cells.iter().any(|cell| !cell.is_empty()) {
                writeln!(out, "| {from} -> {to} | {} |", cells.join(" | "))?;
            }
        }
    }
    Ok(())
}

fn truth_table(out: &mut String, table: &Table) -> Result<()> {
    writeln!(out, "\n### Table `{}`\n\n{} ({}).", table.name, table.title, table.rules.join(", "))?;
    if !table.note.is_empty() {
        writeln!(out, "{}", table.note)?;
    }
    let columns: Vec<_> =
        table.columns.iter().map(|column| format!("`{}`", table.bound(column))).collect();
    writeln!(out, "\n| | {} |\n|---{}|", columns.join(" | "), "|:-:".repeat(columns.len()))?;
    for row in table.rows() {
        let cell = |column| if table.holds(row, column) { "yes" } else { "-" };
        let cells: Vec<_> = table.columns.iter().map(|column| cell(column)).collect();
        writeln!(out, "| `{row}` | {} |", cells.join(" | "))?;
    }
    Ok(())
}

fn c_and_rust(out: &mut String, book: &Book, pairs: &BTreeMap<Id, Case>) -> Result<()> {
    if pairs.is_empty() {
        return Ok(());
    }
    out.push_str(include_str!("page_pairs.in"));
    for (id, case) in pairs {
        let rule = book.entries.get(id).map_or("", |entry| &entry.rule);
        let is_of = |proof: &String| proof.starts_with("c:");
        let proofs = book.entries.get(id).map_or(&[][..], |entry| &entry.proofs);
        let program = proofs.iter().find(|proof| is_of(proof)).map_or("", |proof| &proof[2..]);
        let program = format!("tests/what_c_does/{program}");
        // The last line is `R1.1: kind: what happened`.
        let what = case.last.splitn(3, ": ").last().unwrap_or("").replace('|', "\\|");
        let ends = match case.end.as_str() {
            "" => "not recorded yet".to_owned(),
            "exit 0" => format!("**{}**: {what}", case.kind),
            end => format!("**{}** ({end}): {what}", case.kind),
        };
        let before = if case.before.is_empty() { "" } else { "; " };
        let ends = format!("{ends}{before}{}", case.before.replace('|', "\\|"));
        let mut rust = match case.rust.as_str() {
            "" => String::new(),
            file if file.starts_with("ui-tests/") => format!("[does not compile]({file})"),
            file => format!("[the proof]({file})"),
        };
        if !case.why.is_empty() {
            let gap = if rust.is_empty() { "" } else { ": " };
            write!(rust, "{gap}{}", case.why.replace('|', "\\|"))?;
        }
        writeln!(out, "| {id} {rule} | [C]({program}): {ends} | {rust} |")?;
    }
    Ok(())
}
