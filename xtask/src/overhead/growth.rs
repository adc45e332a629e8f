//! `cargo xtask growth`: the instructions of create, connect, drain, destroy, drop, a wake, and
//! posts to a completion queue with a shared budget, when 1, 100 and 10,000 queue pairs, pools and
//! taken buffers exist.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;

use anyhow::{Context, Result, ensure};

use super::build;
use crate::{callgrind, paths, setup};

const RECORDED: &str = "benches/growth.toml";

const HEAD: &str = "\
# Upper bounds of `cargo xtask growth`, which writes them with --record: instructions of one
# operation when this many other objects exist. If a commit records higher numbers, its message
# gives the reason.

";

#[derive(clap::Args)]
pub struct Args {
    /// Write the counts to benches/growth.toml.
    #[arg(long)]
    record: bool,
}

/// Instructions by `operation/others/number`.
type Counts = BTreeMap<String, u64>;

/// Fails if a count exceeds its bound.
pub fn gate() -> Result<()> {
    hold(&counted()?)
}

pub fn main(args: &Args) -> Result<()> {
    let counts = counted()?;
    print(&counts);
    if args.record {
        let lines: String =
            counts.iter().map(|(key, count)| format!("\"{key}\" = {count}\n")).collect();
        return fs::write(paths::workspace().join(RECORDED), format!("{HEAD}{lines}"))
            .context(RECORDED);
    }
    hold(&counts)
}

fn counted() -> Result<Counts> {
    setup::ensure(&[setup::Group::Build, setup::Group::Valgrind])?;
    let stub = build::stub()?;
    let args: [OsString; 2] = ["--growth".into(), stub.libibverbs.clone().into()];
    let counted = callgrind::run(&build::forms()?, &args, &stub.env(), stub.directory())?;
    let key = |label: &str| label.strip_prefix("growth/").map(str::to_owned);
    let each = counted.each.into_iter();
    each.map(|(label, count)| Ok((key(&label).context(label)?, count.round() as u64))).collect()
}

/// A line for each operation and type of other objects.
fn print(counts: &Counts) {
    let mut rows: BTreeMap<&str, BTreeMap<usize, u64>> = BTreeMap::new();
    for (key, count) in counts {
        let (row, number) = key.rsplit_once('/').unwrap_or((key, "0"));
        rows.entry(row).or_default().insert(number.parse().unwrap_or(0), *count);
    }
    for (row, counts) in rows {
        let cells: String = counts
            .iter()
            .map(|(number, count)| format!("{count:>10} beside {number:<6}"))
            .collect();
        println!("{row:<34}{cells}");
    }
}

/// Fails if a count exceeds its bound by 2 % and 50 instructions.
fn hold(counts: &Counts) -> Result<()> {
    let text = fs::read_to_string(paths::workspace().join(RECORDED)).context(RECORDED)?;
    let bounds: Counts = toml::from_str(&text).context(RECORDED)?;
    let failures: Vec<String> = counts
        .iter()
        .filter_map(|(key, &count)| match bounds.get(key) {
            Some(&bound) if count <= bound + bound / 50 + 50 => None,
            Some(bound) => Some(format!("{key}: {count}, but the bound is {bound}")),
            None => Some(format!("{key}: {count}, but {RECORDED} has no bound")),
        })
        .collect();
    ensure!(failures.is_empty(), "costs exceed {RECORDED}:\n{}", failures.join("\n"));
    println!("growth: {} counts are within their bounds", counts.len());
    Ok(())
}
