//! The whole cycle of one work request, through each crate.

use anyhow::{Context, Result};

use super::canvas::{Bar, Chart, Group, Panel, Role};
use super::read::Recorded;
use crate::field::results::Form;

pub fn chart(results: &Recorded) -> Result<Chart> {
    let mut groups = Vec::new();
    for form in sorted(results) {
        let cell = form.cells.get("cycle").context("every form has a cycle")?;
        let role = match form.krate.as_str() {
            "C" => Role::C,
            "proverbs" => Role::Rust,
            _ => Role::Peer,
        };
        let allocations = match cell.allocations {
            0.0 => String::new(),
            1.0 => "1 allocation, ".into(),
            more => format!("{more} allocations, "),
        };
        let note = format!(" · {allocations}{}", keeper(form));
        let label = format!("{} {}", form.krate, what(form));
        groups.push(Group { label, bars: vec![Bar { role, value: cell.instructions, note }] });
    }
    let heading = "Post, poll and complete one work request".into();
    let legend = [
        (Role::C, "C, gcc -O2, initialisers"),
        (Role::Rust, "this crate"),
        (Role::Peer, "other crates"),
    ];
    let legend = legend.map(|(role, what)| (role, what.to_owned())).to_vec();
    Ok(Chart {
        title: "Instructions a cycle, through each crate".into(),
        subtitle: "outside of the provider, allocator included; behind the bar: who keeps the buffer from misuse"
            .into(),
        panels: vec![Panel { heading, legend, groups }],
    })
}

/// C first, then by cost.
fn sorted(results: &Recorded) -> Vec<&Form> {
    let mut forms: Vec<&Form> = results.field.forms.iter().collect();
    let cost = |form: &Form| form.cells.get("cycle").map_or(0.0, |cell| cell.instructions);
    forms.sort_by(|a, b| (a.krate != "C").cmp(&(b.krate != "C")).then(cost(a).total_cmp(&cost(b))));
    forms
}

/// The form, and that it sends where the others write.
pub fn what(form: &Form) -> String {
    if form.note.starts_with("SEND") { format!("{} (SEND)", form.name) } else { form.name.clone() }
}

/// Who sees to it that a buffer outlives its work request, and is not touched.
pub fn keeper(form: &Form) -> &'static str {
    let held = form.held.iter().find(|(what, _)| what == "lifetime");
    match held.map(|(_, by)| by.as_str()) {
        Some("type") => "the types",
        Some("unsafe") => "the caller (unsafe)",
        _ => "nobody",
    }
}
