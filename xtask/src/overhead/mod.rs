//! `cargo xtask overhead`: instructions of C and of Rust on the same stub provider, and the gate
//! for the hot rows.
//!
//! | file | content |
//! |---|---|
//! | `build` | the stub, the C twins with each compiler, the Rust forms |
//! | `row` | the counts, row by row |
//! | `table` | the tables in Markdown |
//! | `gate` | compares the counts of hot rows with benches/recorded.toml |
//! | `page` | the dated page of figures, which README repeats |
//! | `growth` | `cargo xtask growth`: the cost of cold operations when many other objects exist |

pub mod build;
mod gate;
pub mod growth;
mod page;
mod row;
mod table;

use std::ffi::OsString;

use anyhow::{Result, bail};

use crate::callgrind;
use crate::setup::{self, Group};
use row::Row;

#[derive(clap::Args)]
pub struct Args {
    /// Write the counts of the hot rows to benches/recorded.toml.
    #[arg(long)]
    record: bool,
    /// Write the tables of headline figures, with the commit, to benches/FIGURES.md and README.md.
    #[arg(long)]
    write: bool,
    /// Count only the rows whose `family/row` begins with TEXT: `life/`, `life/echo`.
    #[arg(long, value_name = "TEXT", conflicts_with_all = ["record", "write"])]
    only: Option<String>,
}

/// Counts the hot rows and compares them with their records. One compiler is enough to check that
/// the twins post the same. Their counts are compared at night.
pub fn gate() -> Result<()> {
    let twins = prepare(&build::COMPILERS[..1])?;
    hold(&counted(&twins, &gate::HOT.join(","))?, &build::versions()?, true)
}

/// Counts all rows and prints them.
pub fn main(args: &Args) -> Result<()> {
    let only = args.only.as_deref().unwrap_or_default();
    let rows = counted(&prepare(&build::COMPILERS)?, only)?;
    let versions = build::versions()?;
    println!("{}", table::render(&rows, &versions));
    if args.write {
        page::write(&table::readme(&rows))?;
    }
    if args.record {
        return gate::record(&rows, &versions);
    }
    hold(&rows, &versions, args.only.is_none())
}

fn prepare(compilers: &[(&str, &str)]) -> Result<build::Twins> {
    if !cfg!(target_arch = "x86_64") {
        bail!("the recorded counts are for x86-64: run this on an x86-64 machine");
    }
    setup::ensure(&[Group::Build, Group::Valgrind])?;
    build::twins(compilers)
}

/// Counts all forms of the rows that begin with one of `only`, separated by commas. A form that
/// posts different work requests than its twins is an error.
fn counted(twins: &build::Twins, only: &str) -> Result<Vec<Row>> {
    let stub = &twins.stub;
    let mut args: Vec<OsString> =
        vec![format!("--only={only}").into(), stub.libibverbs.clone().into()];
    let twin = |(name, file): &(String, std::path::PathBuf)| format!("{name}={}", file.display());
    args.extend(twins.objects.iter().map(|object| twin(object).into()));
    let counted = callgrind::run(&build::forms()?, &args, &stub.env(), stub.directory())?;
    Ok(row::from_counts(counted))
}

/// Fails if a hot row exceeds its record. `whole` says that all hot rows were counted.
fn hold(rows: &[Row], versions: &[String], whole: bool) -> Result<()> {
    if let Some(others) = gate::other_compilers(versions)? {
        println!("not compared with benches/recorded.toml: {others}");
        return Ok(());
    }
    let (compared, failures) = gate::compare(rows, whole)?;
    if failures.is_empty() {
        println!("overhead: {compared} counts are within {} of their records", gate::TOLERANCE);
        return Ok(());
    }
    bail!("hot rows exceed benches/recorded.toml:\n{}", failures.join("\n"))
}
