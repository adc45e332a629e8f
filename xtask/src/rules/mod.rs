//! `cargo xtask rules`: the book of rules against its proofs.
//!
//! `rules/catalogue.txt` lists the rules, `rules/NN-*.toml` says how each is held and what proves
//! it, `rules/table.toml` is what may be posted where. From these, `--write` makes `RULES.md` for
//! people and `tests/truth_table.rs` for the compiler; without it, they must be up to date.

pub mod book;
mod cost;
mod emitted;
mod mutants;
mod mutate;
mod page;
pub mod pairs;
mod proof;
mod table;

use std::fs;

use anyhow::{Context, Result, bail};

use crate::paths;
use book::Book;
use table::Tables;

#[derive(clap::Args)]
pub struct Args {
    /// Write RULES.md and tests/truth_table.rs anew.
    #[arg(long)]
    write: bool,
    /// Break the crate's rules one by one, and see that something notices.
    #[arg(long)]
    mutate: bool,
    /// With --mutate, only mutants whose description contains this; may be repeated.
    #[arg(long, value_name = "TEXT", requires = "mutate")]
    only: Vec<String>,
    /// Measure what the ui-tests, the crate and a long chain take to compile.
    #[arg(long, conflicts_with = "mutate")]
    cost: bool,
}

pub fn main(args: &Args) -> Result<()> {
    match (args.mutate, args.cost) {
        (true, _) => mutate::run(&args.only),
        (_, true) => cost::run(),
        _ => run(args.write),
    }
}

/// Holds the book against its proofs, or makes what is made from it. The mutants of `--mutate` are
/// looked up too: a change that no longer applies is an error.
pub fn run(write: bool) -> Result<()> {
    let root = paths::workspace();
    let (book, tables) = (Book::read(&root)?, Tables::read(&root)?);
    let mut problems = book.problems();
    problems.extend(proof::problems(&root, &book, &tables)?);
    mutants::all(&root, &tables)?;
    let pairs = pairs::read(&root)?.cases;
    for id in pairs.keys() {
        let program = format!("r{}_{}.c", id.0, id.1);
        let names =
            |proof: &String| proof.strip_prefix("c:").is_some_and(|at| at.ends_with(&program));
        if !book.entries.get(id).is_some_and(|entry| entry.proofs.iter().any(names)) {
            problems.push(format!("{id} has a C program, and its entry does not name {program}"));
        }
    }
    let page = page::page(&book, &tables, &pairs)?;
    for (file, text) in [("tests/truth_table.rs", tables.test()?), ("RULES.md", page)] {
        let path = root.join(file);
        if fs::read_to_string(&path).is_ok_and(|old| old == text) {
            continue;
        }
        if write {
            fs::write(&path, text).with_context(|| format!("cannot write {file}"))?;
            eprintln!("Wrote {file}");
        } else {
            problems.push(format!("{file} is not what rules/ says: `cargo xtask rules --write`"));
        }
    }
    for (id, entry) in &book.entries {
        let id = id.to_string();
        println!(
            "{id:<7} {:<15} {:>2} proofs  {}",
            entry.held.name(),
            entry.proofs.len(),
            entry.rule
        );
    }
    if problems.is_empty() {
        println!("{}", book.summary());
        return Ok(());
    }
    bail!("{} problems with the rules:\n{}", problems.len(), problems.join("\n"))
}
