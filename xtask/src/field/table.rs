//! The table, in Markdown.

use std::fmt::Write;

use super::count::{Cell, Form};

const HEAD: &str = "\
# The field

The same work through the public API of each crate, on a stub libibverbs that notes what it is given: one WRITE of a
registered buffer of 16 bytes (`ibverbs`, which has no WRITE: a SEND), signaled; four of them in one post; one receive;
polls of 1 and of 16 completions, their status and their wr_id or buffer; the whole cycle of one WRITE.
A program fails if the stub was given anything else.

Instructions a call outside of the provider, allocator included, counted by callgrind, which repeats exactly:
opt-level 3, codegen-units 1 (in brackets, where it was asked for and differs: with fat LTO). `-`: not offered.
*alloc*: allocations of a post and of a cycle. Made by `cargo xtask field --record`; do not edit.

";

const HEADINGS: &str = "\
| crate | form | post | chain of 4 | receive | poll 1 | poll 16 | cycle | alloc | unchecked: the caller's (`unsafe`) | the device's | nobody's |
|---|---|---|---|---|---|---|---|---|---|---|---|
";

const HELD: &str = "
Not here, as they could not be built: `async-rdma` 0.5.0, which needs yanked versions of `simd-abstraction`, and
`safeverbs`, which is not in the registry.

## Who sees to it

`type`: what is wrong does not compile. `run`: a check, or an error value. `unsafe`: the caller, by a written contract.
`device`: whatever the provider makes of it. `nobody`: safe code, and nothing looks. From reading the sources.

- *lifetime*: the buffer lives, and is not touched, until its completion.
- *range*: address and length are in the region whose key goes along.
- *transport*: the transport has the opcode. *state*: the queue pair may post.
- *overrun*: the completion queue has room for every completion.
- *refused*: after a failed post, which work requests are with the device.

";

const WORK: [&str; 6] = ["post", "chain4", "recv", "poll1", "poll16", "cycle"];

/// Everything that was measured.
pub fn render(forms: &[Form], versions: &[String]) -> String {
    let mut text = HEAD.to_owned();
    versions.iter().for_each(|version| text.push_str(&format!("- {version}\n")));
    let _ = write!(text, "\n{HEADINGS}");
    forms.iter().for_each(|form| text.push_str(&line(form)));
    text.push_str(HELD);
    text.push_str(&matrix(forms));
    text
}

fn line(form: &Form) -> String {
    let cells = WORK.map(|work| form.cells.get(work).map_or("-".into(), count));
    let allocations = |work| {
        let cell = form.cells.get(work);
        cell.map_or("-".into(), |cell: &Cell| number(cell.allocations))
    };
    let allocations = format!("{} / {}", allocations("post"), allocations("cycle"));
    let by = |who: &str| {
        let held = form.held.iter().filter(|(_, by)| by == who);
        let all: Vec<&str> = held.map(|(what, _)| what.as_str()).collect();
        if all.is_empty() { "-".to_owned() } else { all.join(", ") }
    };
    let unchecked = ["unsafe", "device", "nobody"].map(by).join(" | ");
    let Form { krate, name, .. } = form;
    format!("| {krate} | {name} | {} | {allocations} | {unchecked} |\n", cells.join(" | "))
}

/// The table of benches/README.md: a post and a whole cycle, and who sees to it that a buffer
/// outlives its work request.
pub fn readme(forms: &[Form]) -> String {
    let mut text = "\
| crate | form | post | cycle | allocations | who keeps the buffer from misuse |
|---|---|--:|--:|--:|---|
"
    .to_owned();
    for form in forms {
        let cell = |work, of: fn(&Cell) -> f64| {
            form.cells.get(work).map_or("-".to_owned(), |cell| number(of(cell)))
        };
        let post = cell("post", |cell| cell.instructions);
        let (cycle, allocations) =
            (cell("cycle", |cell| cell.instructions), cell("cycle", |cell| cell.allocations));
        let keeper = form.held.iter().find(|(what, _)| what == "lifetime");
        let keeper = match keeper.map(|(_, by)| by.as_str()) {
            Some("type") => "the types",
            Some("unsafe") => "the caller (unsafe)",
            _ => "nobody",
        };
        let sends = if form.note.starts_with("SEND") { " (SEND)" } else { "" };
        let Form { krate, name, .. } = form;
        let _ = writeln!(
            text,
            "| {krate} | {name}{sends} | {post} | {cycle} | {allocations} | {keeper} |"
        );
    }
    text
}

fn count(cell: &Cell) -> String {
    match cell.with_lto.filter(|lto| number(*lto) != number(cell.instructions)) {
        Some(lto) => format!("{} ({})", number(cell.instructions), number(lto)),
        None => number(cell.instructions),
    }
}

fn number(count: f64) -> String {
    if count.fract() == 0.0 { format!("{count}") } else { format!("{count:.1}") }
}

fn matrix(forms: &[Form]) -> String {
    let Some(first) = forms.first() else { return String::new() };
    let what: Vec<&str> = first.held.iter().map(|(what, _)| what.as_str()).collect();
    let mut text = format!("| crate | form | {} | note |\n", what.join(" | "));
    let _ = writeln!(text, "|---|---|{}---|", "---|".repeat(what.len()));
    for form in forms {
        let by: Vec<&str> = form.held.iter().map(|(_, by)| by.as_str()).collect();
        let Form { krate, name, note, .. } = form;
        let _ = writeln!(text, "| {krate} | {name} | {} | {note} |", by.join(" | "));
    }
    text
}
