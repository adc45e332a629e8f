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
    let forms: &[&str] =
        if row.keeps_books() { &["c0", "c1", "c2", "c3"] } else { &["idiom", "fast"] };
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
const LOOPS: [(&str, &str); 24] = [
    ("one/write", "WRITE"),
    ("one/full", "WRITE, a queue that is kept full"),
    ("one/read", "READ"),
    ("one/new_cas", "compare-and-swap, new operands"),
    ("one/faa", "fetch-and-add"),
    ("one/echo1", "receive, reply from the same buffer"),
    ("one/echo8", "the same, 8 in flight"),
    ("one/rpc", "request, and its answer"),
    ("one/shared16", "shared receive queue, 16 per poll"),
    ("one/datagrams", "UD to 64 peers, messages with a GRH"),
    ("one/stream16", "receives, posted again as a list"),
    ("one/table", "request, answer from a table"),
    ("one/chain4", "chain of 4, one completion"),
    ("one/list4", "list of 4, one completion"),
    ("one/gather4", "WRITE of 4 buffers"),
    ("one/piece", "a piece of a region"),
    ("pieces/header", "a header and a piece"),
    ("pieces/list16", "16 pieces in a list"),
    ("one/pool", "a new buffer from the pool each time"),
    ("one/from_arena", "a new buffer from an arena each time"),
    ("extended/timed16", "extended polling with time, 16 per poll"),
    ("session/session4", "session of 4 WRITEs"),
    ("wake/wake1", "sleep until one WRITE completes"),
    ("wake/wake32", "sleep until 32 WRITEs complete"),
];

/// The README's tables: the best of each form by any compiler.
pub fn readme(rows: &[Row]) -> String {
    let mut text = "\
| instructions | idiomatic C | fastest C | typed Rust |
|---|--:|--:|--:|
"
    .to_owned();
    for (name, label) in IN_README {
        let row = rows.iter().find(|row| row.family == "caller" && row.name == name);
        let best = |form| show(row.and_then(|row| row.best(form, "")));
        let [idiom, fast] = ["idiom", "fast"].map(best);
        let ours = row.and_then(Row::ours).map(|(_, count)| count);
        let _ = writeln!(text, "| {label} | {idiom} | {fast} | **{}** |", show(ours));
    }
    text.push_str(
        "
| whole loops, per iteration | C without checks | C with the same checks | safe Rust | to C | two queue pairs: C with the same checks | safe Rust | to C |
|---|--:|--:|--:|--:|--:|--:|--:|
",
    );
    for (name, label) in LOOPS {
        let find = |name: &str| rows.iter().find(|row| row.id() == name);
        let many = find(&name.replace("one/", "many/")).filter(|_| name.starts_with("one/"));
        let c0 = show(find(name).and_then(|row| row.best("c0", "")).map(f64::round));
        let [one, many] = [find(name), many].map(compared);
        let _ = writeln!(text, "| {label} | {c0} | {one} | {many} |");
    }
    text
}

/// C with the same checks, Rust, and their ratio.
fn compared(row: Option<&Row>) -> String {
    let both = row.and_then(|row| Some((row.ours()?.1, row.limit()?)));
    let text = both.map(|(our, c)| format!("{c:.0} | **{our:.0}** | {:.2}", our / c));
    text.unwrap_or("- | - | -".into())
}
