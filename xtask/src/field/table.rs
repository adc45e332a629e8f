//! The table, in Markdown.

use std::fmt::Write;

use super::results::{Cell, Form, Results};

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
pub fn render(results: &Results) -> String {
    let mut text = HEAD.to_owned();
    results.versions.iter().for_each(|version| text.push_str(&format!("- {version}\n")));
    let _ = write!(text, "\n{HEADINGS}");
    results.forms.iter().for_each(|form| text.push_str(&line(form)));
    if !results.failed.is_empty() {
        text.push_str("\nNot here, as they cannot be built:\n\n");
        for failed in &results.failed {
            let _ = writeln!(text, "- `{}`: {}", failed.krate, failed.error);
        }
    }
    text.push_str(HELD);
    text.push_str(&matrix(&results.forms));
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
