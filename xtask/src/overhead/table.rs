//! The tables, in Markdown.

use std::fmt::Write;

use super::row::Row;
use crate::callgrind::Accesses;

const CALLER: &str = "
## caller: the caller does the bookkeeping

*raw*: the bindings alone. *typed*: `post_send_unchecked`. Ratio: typed to the best C.

| row | floor | idiomatic gcc / clang | fastest gcc / clang | raw | typed | ratio |
|---|---|---|---|---|---|---|
";

const SAFE: &str = "
*C0*: no checks. *C1*: a ring that rejects overflow. *C2*: the same checks as the crate.

| row | floor | C0 gcc / clang | C1 gcc / clang | C2 gcc / clang | safe | to C0 | to C1 | to C2 |
|---|---|---|---|---|---|---|---|---|
";

const MEMORY: &str = "
## Loads, stores, misses of a 32 KiB cache, and allocations: Rust / C0 / C2

| row | loads | stores | misses | allocations: Rust / C |
|---|--:|--:|--:|--:|
";

/// All rows: instructions outside the provider, the best of -O2 and -O3. The floor is the stores
/// that the provider reads, its calls and the return.
pub fn render(rows: &[Row], versions: &[String]) -> String {
    let mut text = versions.join("\n") + "\n";
    let mut family = "";
    for row in rows {
        if row.family != family {
            family = &row.family;
            match family {
                "caller" => text.push_str(CALLER),
                _ => drop(write!(text, "\n## {family}: the crate owns the buffers\n{SAFE}")),
            }
        }
        text.push_str(&line(row));
    }
    text.push_str(MEMORY);
    rows.iter().filter(|row| row.keeps_books()).for_each(|row| text.push_str(&memory(row)));
    text
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

fn memory(row: &Row) -> String {
    let all = [row.our_accesses(), row.accesses_of_best("c0"), row.accesses_of_best("c2")];
    let cell = |of: fn(&Accesses) -> f64| {
        let each = all.iter().map(|one| show(one.as_ref().map(of)));
        each.collect::<Vec<_>>().join(" / ")
    };
    let (ours, c) = row.allocations();
    let allocations = format!("{} / {}", show(Some(ours)), show(Some(c)));
    let cells =
        [cell(|one| one.loads), cell(|one| one.stores), cell(|one| one.misses), allocations];
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
| instructions | idiomatic C | fastest C | typed Rust | C without checks | C with the same checks | safe Rust |
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
| programs as they are written, each pass of the loop | C without checks | C with the same checks | safe Rust | fewer |
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
