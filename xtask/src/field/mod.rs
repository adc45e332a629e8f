//! `cargo xtask field`: the same work through the other crates that Rust has for verbs.
//!
//! | file | what |
//! |---|---|
//! | `build` | the stub libibverbs, one program a crate, and crates that cannot be built |
//! | `count` | each program under callgrind, and what it says |
//! | `table` | the table in Markdown |
//! | `results` | the counts for other programs |

pub mod build;
mod count;
pub mod results;
mod table;

use std::fs;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};

use crate::setup::Group;
use crate::{Outcome, chart, setup};

#[derive(clap::Args)]
pub struct Args {
    /// Record what was measured: the table in benches/field/RESULTS.md, all of it in results.json.
    #[arg(long)]
    record: bool,
    /// Count with fat LTO too, which builds everything a second time.
    #[arg(long)]
    lto: bool,
    /// Count the programs as they were built last.
    #[arg(long)]
    as_built: bool,
    /// Measure these crates only, as they are called in benches/field/peers; they cannot be recorded.
    #[arg(conflicts_with = "record")]
    crates: Vec<String>,
}

pub fn main(args: Args) -> Outcome {
    if !cfg!(target_arch = "x86_64") {
        bail!("instructions are counted on x86-64 only: the recorded counts are its");
    }
    setup::ensure(&[Group::Build, Group::Valgrind, Group::Field])?;
    let results = measure(&args)?;
    let text = table::render(&results);
    println!("{text}");
    if args.record {
        let dir = build::directory();
        write(&dir.join("RESULTS.md"), &text)?;
        write(&dir.join("results.json"), &results::json(&results)?)?;
        chart::write()?;
    }
    let allocating = results.forms.iter().filter(|form| form.krate == "proverbs");
    if let Some(form) = allocating.into_iter().find(|form| form.allocates()) {
        bail!("{}/{} allocates on a post or poll path", form.krate, form.name);
    }
    Ok(ExitCode::SUCCESS)
}

fn write(file: &std::path::Path, text: &str) -> Result<()> {
    fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))
}

/// All forms of all crates.
fn measure(args: &Args) -> Result<results::Results> {
    let only = &args.crates;
    let stub = build::stub()?;
    let all = build::peers()?;
    let peers = all.into_iter().filter(|peer| only.is_empty() || only.contains(peer));
    let mut results = results::Results { versions: build::versions()?, ..Default::default() };
    for peer in peers {
        match build::program(&peer, &build::PROFILES[0], args.as_built) {
            Err(error) => results.failed.push(build::Failed::of(&peer, &error)),
            Ok(program) => {
                let forms = count::run(&stub, &program, &peer)?;
                let with_lto = if args.lto {
                    let program = build::program(&peer, &build::PROFILES[1], args.as_built)?;
                    count::run(&stub, &program, &peer)?
                } else {
                    Vec::new()
                };
                results.add(forms, with_lto);
            }
        }
    }
    if only.is_empty() {
        results.failed.extend(build::cannot_be_built()?);
    }
    Ok(results)
}
