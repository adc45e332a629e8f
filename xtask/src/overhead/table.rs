//! The table, in Markdown.

use std::fmt::Write;
use std::fs;

use anyhow::{Context, Result};

use super::row::Row;
use crate::callgrind::Accesses;
use crate::paths;

const HEAD: &str = "\
# Instructions a call

What each form executes outside the provider, counted by callgrind, whose counts repeat exactly. All forms post
through the same stub provider, and what it was given is equal byte for byte (wr_ids aside). Best of -O2 and
-O3. The *floor* is the stores whose bytes the provider reads, its calls and the return: the least that any form of the row
gets by with, found by running them instruction by instruction. (The books, and loading what is stored, are above it.) Made by `cargo xtask overhead`; do not edit.

";

const CALLER: &str = "\
## Caller's books

*idiomatic*: designated initialisers. *fastest*: field by field, unrolled. *raw*: bindings alone. *typed*:
`post_send_unchecked`. The ratio is typed to the best C of the row.

| row | floor | idiomatic gcc / clang | fastest gcc / clang | raw | typed | ratio |
|---|---|---|---|---|---|---|
";

const SAFE: &str = "\
*C0*: no books, the wr_id is the buffer's address. *C1*: a ring of buffers that refuses to overflow. *C2*: every
check that the crate makes.

| row | floor | C0 gcc / clang | C1 gcc / clang | C2 gcc / clang | safe | to C0 | to C1 | to C2 |
|---|---|---|---|---|---|---|---|---|
";

const ACCESSES: &str = "
## Accesses to memory

Loads, stores, and those that miss a data cache of 32 KiB (8 ways, lines of 64 bytes), outside the provider, as callgrind
simulates it: of Rust / of C0 / of C2, each by the compiler with the fewest instructions.

| row | loads | stores | misses |
|---|--:|--:|--:|
";

const ALLOCATIONS: &str = "
## Allocations

Calls of the allocator by safe Rust and by C, in the rows that have any; the others have none.

| row | Rust | C |
|---|--:|--:|
";

const ABOVE: &str = "
## Rows that the better C wins

By so many instructions the fastest C is below typed Rust, or C2 below safe Rust. The notes say why.

";

const GATE: &str = "
## Gate

Each count is at most its record (`recorded.toml`), with 2 instructions or 3 % of tolerance.
";

/// Everything that was measured in the profile that gates.
/// `others` says why these compilers are not gated, if they are not.
pub fn render(
    rows: &[Row],
    failures: &[String],
    others: Option<&str>,
    versions: &[String],
) -> Result<String> {
    let mut text = HEAD.to_owned();
    for version in versions {
        let _ = writeln!(text, "- {version}");
    }
    text.push('\n');
    let mut family = "";
    for row in rows {
        if row.family != family {
            family = &row.family;
            match family {
                "caller" => text.push_str(CALLER),
                _ => {
                    let _ = write!(text, "\n## Buffers owned, {family}\n\n{SAFE}");
                }
            }
        }
        text.push_str(&line(row));
    }
    text.push_str(ACCESSES);
    rows.iter().filter(|row| row.keeps_books()).for_each(|row| text.push_str(&accesses(row)));
    text.push_str(ALLOCATIONS);
    for row in rows {
        let (ours, c) = row.allocations();
        if ours + c != 0.0 {
            let _ = writeln!(text, "| {} | {} | {} |", row.id(), show(Some(ours)), show(Some(c)));
        }
    }
    text.push_str(ABOVE);
    for row in rows {
        let (Some((_, ours)), Some(c)) = (row.ours(), row.limit()) else { continue };
        if ours > c {
            let _ = writeln!(text, "- `{}`: {}", row.id(), show(Some(ours - c)));
        }
    }
    match others {
        Some(others) => drop(writeln!(text, "\n## Gate\n\nNone: {others}.")),
        None => text.push_str(GATE),
    }
    for failure in failures {
        let _ = writeln!(text, "- **{failure}**");
    }
    let notes = paths::workspace().join("benches/notes.md");
    let notes = fs::read_to_string(notes).context("cannot read benches/notes.md")?;
    let _ = write!(text, "\n{notes}");
    Ok(text)
}

fn line(row: &Row) -> String {
    let ours = row.ours().map(|(_, count)| count);
    let pair =
        |form| format!("{} / {}", show(row.best(form, "gcc")), show(row.best(form, "clang")));
    let floor = show(row.floor);
    let to = |form| ratio(ours, row.best(form, ""));
    if row.keeps_books() {
        let cells =
            [floor, pair("c0"), pair("c1"), pair("c2"), show(ours), to("c0"), to("c1"), to("c2")];
        format!("| {} | {} |\n", row.name, cells.join(" | "))
    } else {
        let raw = row.rust().find(|(form, _)| *form == "raw").map(|(_, count)| count);
        let cells =
            [floor, pair("idiom"), pair("fast"), show(raw), show(ours), ratio(ours, row.limit())];
        format!("| {} | {} |\n", row.name, cells.join(" | "))
    }
}

fn accesses(row: &Row) -> String {
    let all = [row.our_accesses(), row.accesses_of_best("c0"), row.accesses_of_best("c2")];
    let cell = |of: fn(&Accesses) -> f64| {
        let each = all.iter().map(|one| show(one.as_ref().map(of)));
        each.collect::<Vec<_>>().join(" / ")
    };
    let cells = [cell(|one| one.loads), cell(|one| one.stores), cell(|one| one.misses)];
    format!("| {} | {} |\n", row.id(), cells.join(" | "))
}

fn show(count: Option<f64>) -> String {
    match count {
        None => "-".into(),
        Some(count) if count.fract() == 0.0 => format!("{count}"),
        Some(count) => format!("{count:.1}"),
    }
}

fn ratio(ours: Option<f64>, theirs: Option<f64>) -> String {
    match (ours, theirs) {
        (Some(ours), Some(theirs)) => format!("{:.2}", ours / theirs),
        _ => "-".into(),
    }
}

/// Rows that the README shows, and what they are called there.
const IN_README: [(&str, &str); 7] = [
    ("write", "post one WRITE"),
    ("inline_write", "inline WRITE"),
    ("chain4", "chain of 4 WRITEs"),
    ("mixed4", "mixed chain of 4"),
    ("recv1", "post one receive"),
    ("poll1", "poll one completion"),
    ("cycle", "post, poll, complete"),
];

/// Rows of programs as they are written, and what they are called in the README.
const LIVES: [(&str, &str); 13] = [
    ("life/readme", "the loop at the top of this page"),
    ("life/set_len", "a WRITE of another length each time"),
    ("life/full", "a queue kept as full as it is deep"),
    ("life/echo1", "receive, answer from the same buffer"),
    ("life/echo8", "the same, 8 in flight"),
    ("life/shared16", "shared receive queue, 16 a poll"),
    ("life/two_queue_pairs", "one buffer, two queue pairs by turns"),
    ("life/datagrams", "UD to 64 peers, arrivals behind a GRH"),
    ("life/faa", "fetch-and-add"),
    ("life/chain4", "chain of 4, one completion"),
    ("life/pool", "a buffer of the pool for each"),
    ("wake/wake1", "a sleep for one WRITE's completion"),
    ("wake/wake32", "a sleep for the completions of 32"),
];

/// Where Rust and C with the same checks are as good as equal: 5 of 100.
fn verdict(ours: f64, c: f64) -> String {
    match ours / c {
        ratio if ratio > 1.05 => format!("C by {:.0} %", (ratio - 1.0) * 100.0),
        ratio if ratio < 0.95 => format!("Rust by {:.0} %", (1.0 / ratio - 1.0) * 100.0),
        _ => "parity".into(),
    }
}

/// The README's tables: the best of each form by any compiler.
pub fn readme(rows: &[Row]) -> String {
    let mut text = "\
| instructions | idiomatic C | fastest C | typed Rust | C that keeps no books | C with the same checks | safe Rust |
|---|--:|--:|--:|--:|--:|--:|
"
    .to_owned();
    for (name, label) in IN_README {
        let _ = write!(text, "| {label} |");
        for (family, c) in [("caller", ["idiom", "fast"]), ("signal-all", ["c0", "c2"])] {
            let row = rows.iter().find(|row| row.family == family && row.name == name);
            let best = |form| show(row.and_then(|row| row.best(form, "")));
            let ours = show(row.and_then(Row::ours).map(|(_, count)| count));
            let _ = write!(text, " {} | {} | **{ours}** |", best(c[0]), best(c[1]));
        }
        text.push('\n');
    }
    text.push_str(
        "
| programs as they are written, each pass of the loop | C that keeps no books | C with the same checks | safe Rust | fewer |
|---|--:|--:|--:|---|
",
    );
    for (name, label) in LIVES {
        let row = rows.iter().find(|row| row.id() == name);
        let Some(row) = row else { continue };
        let [c0, c2] = ["c0", "c2"].map(|form| row.best(form, ""));
        let ours = row.ours().map(|(_, count)| count);
        let whole = |count: Option<f64>| count.map_or("-".into(), |count| format!("{count:.0}"));
        let fewer = ours.zip(c2).map_or("-".into(), |(ours, c)| verdict(ours, c));
        let cells = [whole(c0), whole(c2), format!("**{}**", whole(ours)), fewer];
        let _ = writeln!(text, "| {label} | {} |", cells.join(" | "));
    }
    text
}

/// The Rust forms in other profiles, which do not gate.
pub fn profiles(gating: &[Row], others: &[(&str, Vec<Row>)], versions: &[String]) -> String {
    let mut text = "\
# Instructions a call, in other profiles

Typed and safe Rust, counted as for RESULTS.md. *Gating* is opt-level 3 with one codegen unit, and so are the others but for
what they name. None of them gates. Made by `cargo xtask overhead --profiles --record`; do not edit.

"
    .to_owned();
    versions.iter().for_each(|version| text.push_str(&format!("- {version}\n")));
    text.push_str("\n| row | gating |");
    others.iter().for_each(|(name, _)| text.push_str(&format!(" {name} |")));
    let _ = write!(text, "\n|---|---|{}\n", "---|".repeat(others.len()));
    for row in gating {
        let _ = write!(text, "| {} | {} |", row.id(), show(row.ours().map(|ours| ours.1)));
        for (_, rows) in others {
            let other = rows.iter().find(|other| other.id() == row.id());
            let count = other.and_then(Row::ours).map(|ours| ours.1);
            let _ = write!(text, " {} |", show(count));
        }
        text.push('\n');
    }
    text
}
