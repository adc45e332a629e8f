//! `cargo xtask overhead`: instructions of C and of Rust, through the same stub provider, and the
//! gate.
//!
//! | file | what |
//! |---|---|
//! | `build` | the stub, the C twins with each compiler, the Rust forms |
//! | `count` | callgrind, and what it says |
//! | `row` | the counts, row by row |
//! | `table` | the table in Markdown |
//! | `time` | `cargo xtask time`: the same forms under criterion |
//! | `gate` | what must hold |

pub mod build;
mod count;
mod gate;
mod row;
mod table;
pub mod time;

use std::fs;

use anyhow::{Context, Result, bail};

use crate::setup::Group;
use crate::wrap::wrap;
use crate::{figures, paths, setup};

#[derive(clap::Args)]
pub struct Args {
    /// Record what was measured: the table in benches/RESULTS.md, the counts in
    /// benches/recorded.toml, and the README's table.
    #[arg(long)]
    record: bool,
    /// Print the other profiles too: opt-level 2, default codegen units, LTO, panic=abort. With
    /// --record they go to benches/PROFILES.md.
    #[arg(long)]
    profiles: bool,
    /// Count only, and let no failure of the gate fail the command.
    #[arg(long)]
    no_gate: bool,
    /// Count the rows alone whose `family/row` begins so: `life/`, `life/echo`.
    #[arg(long, default_value = "", conflicts_with = "record")]
    only: String,
}

/// The gate as CI runs it.
pub fn gate() -> Result<()> {
    main(&Args { record: false, profiles: false, no_gate: false, only: String::new() })
}

pub fn main(args: &Args) -> Result<()> {
    if !cfg!(target_arch = "x86_64") {
        bail!("instructions are counted on x86-64 only: the recorded counts are its");
    }
    setup::ensure(&[Group::Build, Group::Valgrind])?;
    let twins = build::twins()?;
    let gating = build::PROFILES[0];
    let forms = build::forms(&gating)?;
    let mut rows = row::from_counts(count::run(&twins, &forms, gating.name, &args.only)?);
    let floors = count::floors(&twins, &forms, &args.only)?;
    rows.iter_mut().for_each(|row| row.floor = floors.get(&row.id()).copied());
    let versions = twins.versions()?;
    let others = if args.record { None } else { gate::other_compilers(&versions)? };
    let failures = if others.is_some() { Vec::new() } else { gate::failures(&rows)? };
    let text = table::render(&rows, &failures, others.as_deref(), &versions)?;
    println!("{text}");
    if args.profiles {
        let text = other_profiles(&twins, &rows, &versions)?;
        println!("{text}");
        if args.record {
            write_to_benches("PROFILES.md", &wrap(&text))?;
        }
    }
    let file = paths::target()?.join("overhead.md");
    fs::write(&file, &text).with_context(|| format!("cannot write {}", file.display()))?;
    if args.record {
        write_to_benches("RESULTS.md", &wrap(&text))?;
        gate::record(&rows, &versions)?;
        figures::put("README.md", "overhead", &table::readme(&rows))?;
    }
    if let Some(others) = others {
        println!("shown only, no gate: {others}");
        return Ok(());
    }
    if failures.is_empty() || args.no_gate {
        return Ok(());
    }
    bail!("the gate does not hold:\n{}", failures.join("\n"))
}

fn other_profiles(twins: &build::Twins, rows: &[row::Row], versions: &[String]) -> Result<String> {
    let mut all = Vec::new();
    for profile in &build::PROFILES[1..] {
        let counts = count::run(twins, &build::forms(profile)?, profile.name, "")?;
        all.push((profile.name, row::from_counts(counts)));
    }
    Ok(table::profiles(rows, &all, versions))
}

fn write_to_benches(name: &str, text: &str) -> Result<()> {
    let file = paths::workspace().join("benches").join(name);
    fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))
}
