//! The tables, in Markdown.

use std::fmt::Write;

use super::row::Row;

const HEAD: &str = "
| row | C: gcc / clang | Rust | to the best C |
|---|---|---|--:|
";

/// All rows: instructions outside the provider, and for C the best of -O2 and -O3.
pub fn render(rows: &[Row], versions: &[String]) -> String {
    let lines: String = rows.iter().map(line).collect();
    format!("{}\n{HEAD}{lines}", versions.join("\n"))
}

fn line(row: &Row) -> String {
    let pair = |form: &str| {
        let [gcc, clang] = ["gcc", "clang"].map(|compiler| show(row.best(form, compiler)));
        format!("{form} {gcc} / {clang}")
    };
    let forms: &[&str] = if row.keeps_books() { &["c0", "c1", "c2"] } else { &["idiom", "fast"] };
    let there = forms.iter().filter(|form| row.best(form, "").is_some());
    let c: Vec<String> = there.map(|form| pair(form)).collect();
    let rust: Vec<String> =
        row.rust().map(|(form, count)| format!("{form} {}", show(Some(count)))).collect();
    let ratio = match (row.ours(), row.limit()) {
        (Some((_, ours)), Some(theirs)) => format!("{:.2}", ours / theirs),
        _ => "-".into(),
    };
    format!("| {} | {} | {} | {ratio} |\n", row.id(), c.join(", "), rust.join(", "))
}

fn show(count: Option<f64>) -> String {
    match count {
        None => "-".into(),
        Some(count) if count.fract() == 0.0 => format!("{count}"),
        Some(count) => format!("{count:.1}"),
    }
}

/// Rows that the README shows, and their names there.
const IN_README: [(&str, &str); 7] = [
    ("write", "post one WRITE"),
    ("inline_write", "inline WRITE"),
    ("chain4", "chain of 4 WRITEs"),
    ("mixed4", "mixed chain of 4"),
    ("recv1", "post one receive"),
    ("poll1", "poll one completion"),
    ("cycle", "post, poll, complete"),
];

/// Rows of whole loops, and their names in the README.
const LIVES: [(&str, &str); 17] = [
    ("life/readme", "WRITE and poll, every outcome matched"),
    ("life/set_len", "a WRITE of varying length"),
    ("life/full", "a queue that is kept full"),
    ("life/echo1", "receive, reply from the same buffer"),
    ("life/echo8", "the same, 8 in flight"),
    ("life/shared16", "shared receive queue, 16 per poll"),
    ("life/two_queue_pairs", "one buffer, two queue pairs in turn"),
    ("life/datagrams", "UD to 64 peers, messages with a GRH"),
    ("life/faa", "fetch-and-add"),
    ("life/chain4", "chain of 4, one completion"),
    ("life/pool", "a new buffer from the pool each time"),
    ("life/from_arena", "a new buffer from an arena each time"),
    ("pieces/one", "a piece of a region"),
    ("pieces/header", "a header and a piece"),
    ("pieces/list16", "16 pieces in a list"),
    ("wake/wake1", "sleep until one WRITE completes"),
    ("wake/wake32", "sleep until 32 WRITEs complete"),
];

/// Compares Rust with C with the same checks. A difference up to 5 % is parity.
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
| whole loops, per iteration | C without checks | C with the same checks | safe Rust | fewer |
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
