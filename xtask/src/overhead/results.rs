//! The counts for other programs: `benches/results.json`, which the chart is drawn from.
//!
//! One object: `profile`, `versions` (a list of lines) and `rows`. A row has
//!
//! | key | what |
//! |---|---|
//! | `family`, `row` | as the table's headings and first column |
//! | `rust` | instructions of typed Rust (`caller`) or of safe Rust (all other families) |
//! | `raw` | of rdma-sys alone, where that form exists |
//! | `c` | form (`idiom`, `fast`; `c0`, `c1`, `c2`) -> compiler and level (`gcc -O2`) -> instructions |
//! | `limit` | what the gate holds `rust` to: the fastest C, or C2 |
//! | `target` | what is aimed at: the fastest C; C0 where all complete; C1 with selective signaling |
//! | `floor` | the least of any form: the stores that the provider reads, its calls, the return |

use std::collections::BTreeMap;

use anyhow::Result;
use serde::Serialize;

use super::row::Row;

#[derive(Serialize)]
struct Results<'a> {
    profile: &'a str,
    versions: &'a [String],
    rows: Vec<Counted<'a>>,
}

#[derive(Serialize)]
struct Counted<'a> {
    family: &'a str,
    row: &'a str,
    rust: Option<f64>,
    raw: Option<f64>,
    c: BTreeMap<&'a str, BTreeMap<&'a str, f64>>,
    limit: Option<f64>,
    target: Option<f64>,
    floor: Option<f64>,
}

/// The text of the file.
pub fn json(profile: &str, versions: &[String], rows: &[Row]) -> Result<String> {
    let rows = rows.iter().map(counted).collect();
    let mut text = serde_json::to_string_pretty(&Results { profile, versions, rows })?;
    text.push('\n');
    Ok(text)
}

fn counted(row: &Row) -> Counted<'_> {
    let mut c: BTreeMap<_, BTreeMap<_, _>> = BTreeMap::new();
    for (form, compiler, count) in row.forms.iter().filter(|form| !form.1.is_empty()) {
        c.entry(form.trim_end_matches('s')).or_default().insert(compiler.as_str(), *count);
    }
    Counted {
        family: &row.family,
        row: &row.name,
        rust: row.ours().map(|ours| ours.1),
        raw: row.rust().find(|(form, _)| *form == "raw").map(|raw| raw.1),
        c,
        limit: row.limit(),
        target: row.target(),
        floor: row.floor,
    }
}
