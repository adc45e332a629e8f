//! The tables, and the part of the README between the marks.

use std::fmt::Write;
use std::fs;

use anyhow::{Context, Result};

use super::canvas::show;
use super::field::{keeper, what};
use super::overhead::{FAMILIES, ROWS};
use super::read::Recorded;
use crate::paths;

const BEGIN: &str = "<!-- measured: made by `cargo xtask chart`, do not edit -->\n";
const END: &str = "<!-- measured: end -->";

/// The whole README, its part made anew.
pub fn whole(results: &Recorded) -> Result<String> {
    let file = paths::workspace().join("README.md");
    let text = fs::read_to_string(&file).with_context(|| format!("{}", file.display()))?;
    replaced(&text, &part(results)?)
}

fn replaced(text: &str, part: &str) -> Result<String> {
    let (before, rest) = text.split_once(BEGIN).context("README.md has no mark to begin at")?;
    let (_, after) = rest.split_once(END).context("README.md has no mark to end at")?;
    Ok(format!("{before}{BEGIN}{part}{END}{after}"))
}

fn part(results: &Recorded) -> Result<String> {
    let mut text = String::new();
    picture(&mut text, "overhead", "Instructions a call, C and Rust");
    overhead(&mut text, results)?;
    picture(&mut text, "field", "Instructions a cycle, through each crate");
    field(&mut text, results)?;
    rate(&mut text, results);
    Ok(text)
}

fn picture(text: &mut String, name: &str, what: &str) {
    let _ = write!(
        text,
        "\n<picture>\n  <source media=\"(prefers-color-scheme: dark)\" srcset=\"benches/charts/{name}-dark.svg\">\n  \
         <img alt=\"{what}\" src=\"benches/charts/{name}-light.svg\">\n</picture>\n\n"
    );
}

fn overhead(text: &mut String, results: &Recorded) -> Result<()> {
    let heads = FAMILIES.iter().flat_map(|family| {
        let [first, second] = family.c;
        [first.1, second.1, family.rust]
    });
    let heads: Vec<&str> = heads.collect();
    let _ = write!(
        text,
        "| instructions | {} |\n|---|{}\n",
        heads.join(" | "),
        "--:|".repeat(heads.len())
    );
    for (row, label) in ROWS {
        let _ = write!(text, "| {label} |");
        for family in &FAMILIES {
            let row = results.overhead.row(family.name, row)?;
            let cells = [row.c(family.c[0].0)?, row.c(family.c[1].0)?, row.rust()?];
            let [a, b, rust] = cells.map(show);
            let _ = write!(text, " {a} | {b} | **{rust}** |");
        }
        text.push('\n');
    }
    Ok(())
}

fn field(text: &mut String, results: &Recorded) -> Result<()> {
    text.push_str(
        "| crate | form | post | cycle | allocations | who keeps the buffer from misuse |\n",
    );
    text.push_str("|---|---|--:|--:|--:|---|\n");
    for form in &results.field.forms {
        let cycle = form.cells.get("cycle").context("every form has a cycle")?;
        let post = form.cells.get("post").map_or("-".into(), |post| show(post.instructions));
        let _ = writeln!(
            text,
            "| {} | {} | {post} | {} | {} | {} |",
            form.krate,
            what(form),
            show(cycle.instructions),
            show(cycle.allocations),
            keeper(form)
        );
    }
    Ok(())
}

fn rate(text: &mut String, results: &Recorded) {
    let _ = writeln!(
        text,
        "\nOn Soft-RoCE, **emulated** on a clock of instructions (polled latency: in real time), {} pairs of runs; Rust to C, above 1 is \
         better for Rust:\n",
        results.rate.pairs
    );
    text.push_str("| | polled | events |\n|---|---|---|\n");
    let mut done: Vec<&str> = Vec::new();
    for row in &results.rate.measured {
        if done.contains(&row.what.as_str()) {
            continue;
        }
        done.push(&row.what);
        let label = match row.what.strip_prefix("chain") {
            None => "latency of `rc_pingpong`".to_owned(),
            Some(length) => format!("messages a second, chains of {length}"),
        };
        let cell = |mode: &str| {
            let found =
                results.rate.measured.iter().find(|it| it.what == row.what && it.mode == mode);
            found.map_or("-".into(), |it| {
                let [least, median, greatest] = it.ratio;
                format!("{median:.2} ({least:.2} to {greatest:.2})")
            })
        };
        let _ = writeln!(text, "| {label} | {} | {} |", cell("polled"), cell("events"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_between_the_marks_changes() {
        let text = format!("a\n{BEGIN}old\n{END}\nb\n");
        let expected = format!("a\n{BEGIN}new\n{END}\nb\n");
        assert_eq!(replaced(&text, "new\n").expect("both marks"), expected);
        assert!(replaced("no marks", "").is_err());
    }
}
