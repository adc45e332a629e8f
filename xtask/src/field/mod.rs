//! `cargo xtask field`: the same work through the other crates that Rust has for verbs.
//!
//! | file | what |
//! |---|---|
//! | `build` | the stub libibverbs, and one program a crate |
//! | `count` | what a program says, and what callgrind counted |
//! | `table` | the table in Markdown |
//! | `scale` | `cargo xtask scale`: memory and growth, on the same stub |

pub mod build;
mod count;
pub mod scale;
mod table;

use std::fs;

use anyhow::{Context, Result, bail};

use crate::setup::Group;
use crate::wrap::wrap;
use crate::{figures, setup};

#[derive(clap::Args)]
pub struct Args {
    /// Record what was measured: the tables in benches/field/RESULTS.md and benches/README.md.
    #[arg(long)]
    record: bool,
    /// Count with fat LTO too, which builds everything a second time.
    #[arg(long)]
    lto: bool,
    /// Count the programs as they were built last.
    #[arg(long)]
    as_built: bool,
    /// Measure these crates only, as they are called in benches/field/peers; they cannot be
    /// recorded.
    #[arg(conflicts_with = "record")]
    crates: Vec<String>,
}

pub fn main(args: &Args) -> Result<()> {
    if !cfg!(target_arch = "x86_64") {
        bail!("instructions are counted on x86-64 only: the recorded counts are its");
    }
    setup::ensure(&[Group::Build, Group::Valgrind, Group::Field])?;
    let stub = build::stub()?;
    let mut forms = Vec::new();
    for peer in build::peers()? {
        if args.crates.is_empty() || args.crates.contains(&peer) {
            let counted = build::counted(&stub, &peer, build::RELEASE, args.as_built)?;
            let lto = args.lto.then(|| build::counted(&stub, &peer, build::LTO, args.as_built));
            let counted = count::forms(&counted, lto.transpose()?.as_ref())?;
            if peer == build::C {
                forms.extend(count::best("libibverbs", counted));
            } else {
                forms.extend(counted);
            }
        }
    }
    let text = table::render(&forms, &build::versions()?);
    println!("{text}");
    if args.record {
        fs::write(build::directory().join("RESULTS.md"), wrap(&text))
            .context("the field's results")?;
        figures::put("benches/README.md", "field", &table::readme(&forms))?;
    }
    for form in forms.iter().filter(|form| form.krate == "proverbs") {
        if form.cells.values().any(|cell| cell.allocations > 0.0) {
            bail!("{}/{} allocates on a post or poll path", form.krate, form.name);
        }
    }
    Ok(())
}
