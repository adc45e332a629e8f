//! The table in Markdown, and the results for other programs.

use std::fmt::Write;

use anyhow::Result;

use super::pairs::Results;

const HEAD: &str = "\
# Latency and message rate, emulated

C and Rust in turn on the same device, the order alternating. **Emulated**: the processor, and so every number; what
counts is the ratio. A clock of instructions repeats, whatever else the host does; real time does not. Latency: a round
trip of `rc_pingpong` with 64 bytes, both ends in one language. Rate: WRITEs of 64 bytes in chains, window 64, only the
last of a chain signaled; on rxe a post is a system call, however long its chain. Made by `cargo xtask rate --record`;
do not edit.

";

/// Everything that was measured.
pub fn render(results: &Results) -> String {
    let mut text = HEAD.to_owned();
    let _ = write!(text, "- {}\n- {} pairs; medians\n\n", results.device, results.pairs);
    text.push_str(
        "| what | mode | C | Rust | ratio, above 1 is better for Rust (least to greatest) |\n",
    );
    text.push_str("|---|---|---|---|---|\n");
    for row in &results.measured {
        let unit = if row.what == "latency" { "µs" } else { "/s" };
        let what = match row.what.strip_prefix("chain") {
            None => "latency".to_owned(),
            Some(length) => format!("rate, chains of {length}"),
        };
        let [least, median, greatest] = row.ratio;
        let _ = writeln!(
            text,
            "| {what} | {} | {:.0} {unit} | {:.0} {unit} | {median:.2} ({least:.2} to {greatest:.2}) |",
            row.mode, row.c, row.rust
        );
    }
    text
}

/// The text of the file for other programs.
pub fn json(results: &Results) -> Result<String> {
    let mut text = serde_json::to_string_pretty(results)?;
    text.push('\n');
    Ok(text)
}
