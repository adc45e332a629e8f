//! The table, in Markdown.

use std::fmt::Write;

use super::count::{Cell, Form};

const HEAD: &str = "\
# The field

The same work through the public API of each crate, on a stub libibverbs that notes what it is given. A program fails
if the stub was given anything else.

Instructions outside of the provider, allocator included, counted by callgrind, which repeats exactly:
opt-level 3, codegen-units 1 (in brackets, where it was asked for and differs: with fat LTO). `-`: not offered.
C is written by hand, field by field, and keeps no books; each count is the smaller of gcc -O2 and clang -O2.
Made by `cargo xtask field --record`; do not edit.

";

const PROGRAMS_HEAD: &str = "
## Programs as they are written

Instructions of one item, the program's loop included; 64-byte buffers and messages.

- *loop*: one WRITE (`ibverbs`, which has none: a SEND) after the other from one buffer: post, poll, a look at the
  status, and the buffer that the completion names.
- *length*: the same, each of another length.
- *chain*: four WRITEs from four buffers in one post, of which the last alone completes, and that completion.
- *inline*: an inline SEND of 16 bytes, and its completion.
- *echo*: what arrives is answered from the buffer that it came in, with the length that it came with, and what was sent
  is a receive again. One buffer is on its way, or eight; polls ask for up to 16. An item is a completion with its post.

Errors go up by `?` in Rust. Where one completion is awaited, one is asked for; `sideway`'s *basic* form and `poll` of
`proverbs` ask for more (its *unchecked* form and its *chain* do not). `proverbs` takes buffers out of completions by `into_entry`, or (*outcome*) sorts
completions by `outcome`, as README does. Where a crate names buffers by wr_ids, a wr_id is the number of a buffer;
`ibverbs-rs` tells no opcode, so its wr_ids have a bit for receives. No other crate gives a queue pair a shared receive
queue, so that is not here.

*alloc*: allocations of an item of *loop* / *chain* / *inline* / *echo*.

";

const PROGRAMS_HEADINGS: &str = "\
| crate | form | loop | length | chain | inline | echo | echo, 8 | alloc |
|---|---|--:|--:|--:|--:|--:|--:|---|
";

const CALLS: &str = "
## Single calls

One WRITE of a registered buffer of 64 bytes (`ibverbs`: a SEND), signaled; four of them in one post; one receive;
polls of 1 and of 16 completions, their status and their wr_id or buffer; the whole cycle of one WRITE.
*alloc*: allocations of a post and of a cycle.

";

const CALLS_HEADINGS: &str = "\
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

const SINGLE: [&str; 6] = ["post", "chain4", "recv", "poll1", "poll16", "cycle"];
const PROGRAMS: [&str; 6] = ["loop", "length", "chain", "inline", "echo", "echo8"];

/// Everything that was measured.
pub fn render(forms: &[Form], versions: &[String]) -> String {
    let mut text = HEAD.to_owned();
    versions.iter().for_each(|version| text.push_str(&format!("- {version}\n")));
    text = text + PROGRAMS_HEAD + PROGRAMS_HEADINGS;
    forms.iter().for_each(|form| text.push_str(&program_line(form)));
    text = text + CALLS + CALLS_HEADINGS;
    let has_calls = |form: &&Form| SINGLE.iter().any(|work| form.cells.contains_key(*work));
    forms.iter().filter(has_calls).for_each(|form| text.push_str(&line(form)));
    text.push_str(HELD);
    text.push_str(&matrix(forms));
    text
}

fn program_line(form: &Form) -> String {
    let allocated = ["loop", "chain", "inline", "echo"].map(|work| allocations(form, work));
    let cells = cells(form, PROGRAMS).join(" | ");
    let Form { krate, name, .. } = form;
    format!("| {krate} | {name} | {cells} | {} |\n", allocated.join(" / "))
}

fn line(form: &Form) -> String {
    let allocated = ["post", "cycle"].map(|work| allocations(form, work)).join(" / ");
    let by = |who: &str| {
        let held = form.held.iter().filter(|(_, by)| by == who);
        let all: Vec<&str> = held.map(|(what, _)| what.as_str()).collect();
        if all.is_empty() { "-".to_owned() } else { all.join(", ") }
    };
    let unchecked = ["unsafe", "device", "nobody"].map(by).join(" | ");
    let cells = cells(form, SINGLE).join(" | ");
    let Form { krate, name, .. } = form;
    format!("| {krate} | {name} | {cells} | {allocated} | {unchecked} |\n")
}

fn cells<const N: usize>(form: &Form, works: [&str; N]) -> [String; N] {
    works.map(|work| form.cells.get(work).map_or("-".into(), count))
}

fn allocations(form: &Form, work: &str) -> String {
    form.cells.get(work).map_or("-".into(), |cell| number(cell.allocations))
}

/// The table of benches/README.md: the programs, and who sees to it that a buffer outlives its work
/// request.
pub fn readme(forms: &[Form]) -> String {
    let mut text = "\
| crate | form | loop | length | chain | inline | echo | echo, 8 | allocations | who keeps the buffer from misuse |
|---|---|--:|--:|--:|--:|--:|--:|--:|---|
"
    .to_owned();
    for form in forms {
        let whole = |work| {
            let cell = form.cells.get(work);
            cell.map_or("-".to_owned(), |cell: &Cell| format!("{:.0}", cell.instructions))
        };
        let cells = PROGRAMS.map(whole).join(" | ");
        let allocated = allocations(form, "loop");
        let keeper = form.held.iter().find(|(what, _)| what == "lifetime");
        let keeper = match keeper.map(|(_, by)| by.as_str()) {
            Some("type") => "the types",
            Some("unsafe") => "the caller (unsafe)",
            _ => "nobody",
        };
        let sends = if form.note.starts_with("SEND") { " (SEND)" } else { "" };
        let Form { krate, name, .. } = form;
        let _ = writeln!(text, "| {krate} | {name}{sends} | {cells} | {allocated} | {keeper} |");
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
