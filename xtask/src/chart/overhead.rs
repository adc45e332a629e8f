//! C and Rust through the stub provider.

use anyhow::Result;

use super::canvas::{Bar, Chart, Group, Panel, Role};
use super::read::Recorded;

/// Rows of the table that are shown, and what they are called there.
pub const ROWS: [(&str, &str); 7] = [
    ("write", "post one WRITE"),
    ("inline_write", "inline WRITE"),
    ("chain4", "chain of 4 WRITEs"),
    ("mixed4", "mixed chain of 4"),
    ("recv1", "post one receive"),
    ("poll1", "poll one completion"),
    ("cycle", "post, poll, complete"),
];

/// A family: its forms of C, and how they are called.
pub struct Family {
    pub name: &'static str,
    pub heading: &'static str,
    pub c: [(&'static str, &'static str); 2],
    pub rust: &'static str,
}

pub const FAMILIES: [Family; 2] = [
    Family {
        name: "caller",
        heading: "Caller's books (the unsafe post)",
        c: [("idiom", "idiomatic C"), ("fast", "fastest C")],
        rust: "typed Rust",
    },
    Family {
        name: "signal-all",
        heading: "Buffers owned (no unsafe), every work request completes",
        c: [("c0", "C that keeps no books"), ("c2", "C with the same checks")],
        rust: "safe Rust",
    },
];

pub fn chart(results: &Recorded) -> Result<Chart> {
    let panels = FAMILIES.iter().map(|family| panel(results, family));
    Ok(Chart {
        title: "Instructions a call, C and Rust".into(),
        subtitle:
            "outside of the provider, counted by callgrind; the best of gcc and clang, -O2 and -O3"
                .into(),
        panels: panels.collect::<Result<_>>()?,
    })
}

fn panel(results: &Recorded, family: &Family) -> Result<Panel> {
    let [first, second] = family.c;
    let groups = ROWS.iter().map(|(row, label)| {
        let row = results.overhead.row(family.name, row)?;
        let bar = |role, value| Bar { role, value, note: String::new() };
        let bars = vec![
            bar(Role::OtherC, row.c(first.0)?),
            bar(Role::C, row.c(second.0)?),
            bar(Role::Rust, row.rust()?),
        ];
        Ok(Group { label: (*label).to_owned(), bars })
    });
    let groups = groups.collect::<Result<_>>()?;
    let legend = [(Role::OtherC, first.1), (Role::C, second.1), (Role::Rust, family.rust)];
    let legend = legend.map(|(role, what)| (role, what.to_owned())).to_vec();
    Ok(Panel { heading: family.heading.into(), legend, groups })
}
