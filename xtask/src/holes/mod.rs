//! `cargo xtask holes`: each hole that was ever found is brought back, and something notices.
//!
//! A hole is a patch in `tests/holes`: the smallest change that opens it again, and above it, in
//! lines that begin with `#`, what it is, how it was found, and what notices it. The project is
//! copied, the patch applied, and that is run: it must fail. A hole that makes the crate not
//! compile is not one any more, and a patch that does not apply is out of date: both are failures
//! of the book.

mod hole;
mod tree;

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Result, bail, ensure};

use crate::sh::tail;
use crate::{Outcome, paths, setup, share, toolchain};
use hole::{By, Hole, Kind, Under};
use tree::{Seen, Tree};

#[derive(clap::Args)]
pub struct Args {
    /// Only these, by the names of their files: `U1`, or `U1a`. Without, all of them.
    ids: Vec<String>,
    /// A tenth of the book: its number (0 to 9), or a commit, whose hash chooses it.
    #[arg(long, value_name = "N|HASH")]
    tenth: Option<String>,
    /// Do not first see that what notices passes on the crate as it is.
    #[arg(long)]
    no_baseline: bool,
    /// Say what is in the book, and run nothing.
    #[arg(long)]
    list: bool,
}

/// Which tenth, of how many.
const TENTHS: usize = 10;
/// The programs that are run when those which the book names notice nothing any more: a row more
/// in the table of calls, and the same seed draws other programs.
const OTHERS: &str = "--seed 7 --count 200 --turns 20";
/// The same under Miri.
const OTHERS_OF_MIRI: &str = "--miri --model stacked-borrows --seed 7 --count 60 --turns 1";

pub fn main(args: Args) -> Outcome {
    let mut holes = book()?;
    if !args.ids.is_empty() {
        let asked = |hole: &Hole| args.ids.iter().any(|id| hole.is(id));
        let unknown = args.ids.iter().find(|id| !holes.iter().any(|hole| hole.is(id)));
        ensure!(unknown.is_none(), "no hole {unknown:?} in the book; `--list` says what is");
        holes.retain(asked);
    }
    if let Some(tenth) = &args.tenth {
        holes = only_tenth(holes, share::which(tenth, TENTHS)?);
    }
    if args.list {
        for hole in &holes {
            let lines: Vec<String> = hole.notices.iter().map(hole::Run::line).collect();
            println!("{:<8} {} [{}]", hole.id, hole.what, lines.join("; "));
        }
        return Ok(ExitCode::SUCCESS);
    }
    let seen = run(&holes, !args.no_baseline)?;
    if args.ids.is_empty() && args.tenth.is_none() {
        seen.has_half()?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Every hole.
pub fn all() -> Result<()> {
    run(&book()?, true)?.has_half()
}

/// A tenth of them, which the commit chooses. (That what notices passes is seen by the other parts
/// of the test.)
pub fn tenth() -> Result<()> {
    run(&only_tenth(book()?, share::of_this_commit(TENTHS)?), false).map(drop)
}

fn book() -> Result<Vec<Hole>> {
    hole::all(&paths::workspace().join("tests/holes"))
}

fn only_tenth(holes: Vec<Hole>, which: usize) -> Vec<Hole> {
    eprintln!("tenth {which} of the book");
    share::take(holes, which, TENTHS)
}

/// How many holes are of safe code, and how many of those the generated programs noticed.
struct BySafePrograms {
    safe: usize,
    noticed: usize,
}

impl BySafePrograms {
    /// The programs look for holes that nobody has thought of: of those that are known they must
    /// find half.
    fn has_half(&self) -> Result<()> {
        let BySafePrograms { safe, noticed } = self;
        ensure!(
            2 * noticed >= *safe,
            "of {safe} holes of safe code the programs noticed {noticed}"
        );
        Ok(())
    }
}

fn run(holes: &[Hole], baseline: bool) -> Result<BySafePrograms> {
    setup::ensure(&[setup::Group::Build])?;
    if holes
        .iter()
        .flat_map(|hole| &hole.notices)
        .any(|run| !matches!(run.under, Under::Native | Under::Loom))
    {
        toolchain::nightly()?;
    }
    let tree = Tree::new()?;
    if baseline {
        see_that_all_passes(&tree, holes)?;
    }
    let (mut noticed, mut safe, mut by_programs) = (0, 0, 0);
    let mut pass_as_it_is = BTreeSet::new();
    for (i, hole) in holes.iter().enumerate() {
        let start = Instant::now();
        tree.apply(hole, false)?;
        let seen = see(&tree, hole);
        tree.apply(hole, true)?;
        let Noticed { tests, programs } = seen?;
        let seconds = start.elapsed().as_secs_f64();
        let (at, of, id) = (i + 1, holes.len(), &hole.id);
        match &tests {
            Ok(()) => println!("{at}/{of} {id}: noticed ({seconds:.1} s) | {}", hole.what),
            Err(why) => println!("{at}/{of} {id}: NOT noticed, {why} | {}", hole.what),
        }
        match &programs {
            Some(Ok(Programs::Others { args, which })) => {
                if pass_as_it_is.insert(*args) {
                    programs_pass(&tree, args)?;
                }
                println!("{at}/{of} {id}: noticed by other programs than the book names: {which}");
            }
            Some(Err(why)) => {
                println!("{at}/{of} {id}: NOT noticed by the generated programs: {why}");
            }
            Some(Ok(Programs::Named)) | None => {}
        }
        noticed += (tests.is_ok() && !matches!(programs, Some(Err(_)))) as usize;
        safe += (hole.kind == Kind::Safe) as usize;
        by_programs += (hole.kind == Kind::Safe && matches!(programs, Some(Ok(_)))) as usize;
    }
    let by_programs_of = format!("{by_programs} of {safe} holes of safe code by programs");
    println!("{} holes, {noticed} noticed; {by_programs_of}", holes.len());
    ensure!(noticed == holes.len(), "{} holes were not noticed", holes.len() - noticed);
    Ok(BySafePrograms { safe, noticed: by_programs })
}

struct Noticed {
    /// Why not, if not.
    tests: Result<(), String>,
    /// Of those that the book says the generated programs notice: which of them did, or why not.
    programs: Option<Result<Programs, String>>,
}

/// Generated programs that noticed a hole.
enum Programs {
    /// Those that the book names.
    Named,
    /// One of [`OTHERS`] or [`OTHERS_OF_MIRI`]: what it was run with, and what it said.
    Others { args: &'static str, which: String },
}

/// The hole is open: what notices?
fn see(tree: &Tree, hole: &Hole) -> Result<Noticed> {
    if let Seen::NotBuilt(text) = tree.crate_builds()? {
        return Ok(Noticed { tests: Err(not_built("the crate", &text)), programs: None });
    }
    let mut tests = Ok(());
    for run in &hole.notices {
        let why = match (tree.run(run, hole.by)?, hole.by) {
            (Seen::Failed, By::Failure | By::Hang) => continue,
            (Seen::TimedOut, By::Hang) => continue,
            (Seen::NotBuilt(_), By::Build) => continue,
            (Seen::NotBuilt(text), _) => not_built("the test", &text),
            (Seen::TimedOut, _) => {
                "it did not end, and the book does not say that it hangs".to_owned()
            }
            (Seen::Failed, By::Build) => "it failed, though it compiles".to_owned(),
            (Seen::Passed, _) => "it passed".to_owned(),
        };
        tests = Err(format!("`{}`: {why}", run.line()));
        break;
    }
    let programs = match &hole.programs {
        None => None,
        Some(args) => Some(which_programs(tree, args)?),
    };
    Ok(Noticed { tests, programs })
}

/// Those that the book names are run first, since they are few.
fn which_programs(tree: &Tree, named: &str) -> Result<Result<Programs, String>> {
    let others = if named.contains("--miri") { OTHERS_OF_MIRI } else { OTHERS };
    for args in [named, others] {
        let (seen, text) = tree.programs(args)?;
        return Ok(match seen {
            Seen::Passed => continue,
            Seen::Failed if args == named => Ok(Programs::Named),
            Seen::Failed => {
                let which = text.lines().find(|line| line.starts_with("program "));
                let which = format!("`{others}`: {}", which.unwrap_or_default());
                Ok(Programs::Others { args: others, which })
            }
            Seen::TimedOut => Err("they did not end".to_owned()),
            Seen::NotBuilt(text) => Err(format!("they were not run:\n{}", tail(&text, 20))),
        });
    }
    Ok(Err(format!("all passed, those of `{others}` too")))
}

fn not_built(what: &str, text: &str) -> String {
    format!("{what} does not compile:\n{}\n", tail(text, 20))
}

/// What notices must pass while no hole is open, or it would notice anything.
fn see_that_all_passes(tree: &Tree, holes: &[Hole]) -> Result<()> {
    let runs: BTreeSet<_> = holes.iter().flat_map(|hole| &hole.notices).collect();
    for run in runs {
        eprintln!("passes as it is? {}", run.line());
        match tree.run(run, By::Failure)? {
            Seen::Passed => {}
            Seen::NotBuilt(text) => {
                bail!("`{}` does not compile:\n{}", run.line(), tail(&text, 40))
            }
            _ => bail!("`{}` does not pass on the crate as it is", run.line()),
        }
    }
    for args in holes.iter().filter_map(|hole| hole.programs.as_ref()).collect::<BTreeSet<_>>() {
        programs_pass(tree, args)?;
    }
    Ok(())
}

fn programs_pass(tree: &Tree, args: &str) -> Result<()> {
    let (seen, text) = tree.programs(args)?;
    let passes = matches!(seen, Seen::Passed);
    let why = tail(&text, 20);
    ensure!(passes, "the generated programs `{args}` do not pass on the crate as it is:\n{why}");
    Ok(())
}

impl Hole {
    /// Whether `id` is its name, or that without the letter behind it.
    fn is(&self, id: &str) -> bool {
        let rest = self.id.strip_prefix(id);
        rest.is_some_and(|rest| rest.is_empty() || rest.chars().all(|c| c.is_ascii_lowercase()))
    }
}
