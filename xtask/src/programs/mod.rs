//! `cargo xtask programs`: safe programs, written from a table of the public calls and a seed; what compiles is run.
//!
//! | file | what |
//! |---|---|
//! | tests/programs/calls.toml, `table`, `term` | the calls: what they take, give and borrow |
//! | `check` | the table against the public interface |
//! | `draw`, `call`, `habits`, `body`, `dice` | a program, drawn |
//! | `compile` | rustc is the filter |
//! | `run`, `shrink` | natively and under Miri; what fails is made short |
//! | tests/programs/src | what the programs have around them, and what must hold for each |

mod body;
mod call;
mod check;
mod compile;
mod dice;
mod draw;
mod habits;
mod run;
mod shrink;
mod table;
mod term;

use std::fmt;
use std::fs;
use std::process::ExitCode;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Result, bail};

use crate::miri::Model;
use crate::setup::{self, Group};
use crate::{Outcome, paths};
use draw::{For, Program};
use run::{Failure, Way};
use table::Table;

#[derive(clap::Args)]
pub struct Args {
    /// What the programs are drawn from; without, the day.
    #[arg(long)]
    seed: Option<u64>,
    /// How many are drawn.
    #[arg(long, default_value_t = 300)]
    count: u64,
    /// The first one's number.
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// Run them under Miri.
    #[arg(long)]
    miri: bool,
    /// One borrow model only.
    #[arg(long)]
    model: Option<Model>,
    /// Print a program instead of running it.
    #[arg(long, value_name = "NUMBER")]
    print: Option<u64>,
    /// Hold the table of calls against the public interface, and run nothing.
    #[arg(long)]
    check: bool,
    /// Write the figures to FAULTS.md.
    #[arg(long)]
    record: bool,
    /// Go on after failures, and do not make them short.
    #[arg(long)]
    all: bool,
}

/// Programs in one crate.
const CRATE: usize = 300;

/// What became of the programs.
#[derive(Default)]
struct Figures {
    seed: u64,
    drawn: usize,
    compiled: usize,
    run: usize,
    threads: usize,
    /// Under Miri without weak memory: threads, and memory that is open to the fabric.
    open: usize,
    /// Not run under Miri: a drain waits for what was forgotten.
    slow: usize,
    failed: usize,
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Figures { seed, drawn, compiled, run, threads, open, slow, failed } = self;
        write!(f, "seed {seed}: {drawn} programs drawn, {compiled} compiled, {run} run")?;
        write!(f, " ({threads} with threads), {failed} failed")?;
        if *open + *slow != 0 {
            write!(
                f,
                "; {open} without weak memory emulation, since they have threads and open memory"
            )?;
            write!(f, "; {slow} not run, since they wait for what was forgotten")?;
        }
        Ok(())
    }
}

pub fn main(args: Args) -> Outcome {
    setup::ensure(&[Group::Build])?;
    let table = table::read()?;
    if args.check {
        check::check(&table)?;
        return Ok(ExitCode::SUCCESS);
    }
    let day = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs() / 86400;
    let seed = args.seed.unwrap_or(day);
    let what = if args.miri { For::Miri } else { For::Native };
    if let Some(number) = args.print {
        print!("{}", draw::draw(&table, seed, number, what).text());
        return Ok(ExitCode::SUCCESS);
    }
    let ways = match (args.miri, args.model) {
        (false, _) => Vec::new(),
        (true, Some(model)) => vec![model],
        (true, None) => vec![Model::StackedBorrows, Model::TreeBorrows],
    };
    let started = Instant::now();
    let mut figures = Figures { seed, ..Figures::default() };
    eprintln!("seed {seed}");
    let mut from = args.from;
    let end = args.from + args.count;
    while from < end {
        let to = (from + CRATE as u64).min(end);
        let failures = some(&table, seed, from..to, what, &ways, !args.all, &mut figures)?;
        from = to;
        eprintln!("{figures}, {:.0} s", started.elapsed().as_secs_f64());
        if failures && !args.all {
            break;
        }
    }
    if args.record {
        let miri = if args.miri { " --miri" } else { "" };
        let command =
            format!("cargo xtask programs --seed {seed} --count {}{miri} --record", args.count);
        let section = if args.miri { "programs-miri" } else { "programs" };
        crate::figures::record(section, &command, &figures.to_string())?;
    } else {
        println!("{figures}");
    }
    println!("{:.1} s", started.elapsed().as_secs_f64());
    Ok(ExitCode::from((figures.failed != 0) as u8))
}

/// Draws, compiles and runs some; whether one failed.
fn some(
    table: &Table,
    seed: u64,
    numbers: std::ops::Range<u64>,
    what: For,
    models: &[Model],
    shrinks: bool,
    figures: &mut Figures,
) -> Result<bool> {
    let drawn = numbers.map(|number| draw::draw(table, seed, number, what));
    let mut drawn: Vec<Program> = drawn.collect();
    figures.drawn += drawn.len();
    if what == For::Miri {
        let before = drawn.len();
        drawn.retain(|program| !program.traits.slow);
        figures.slow += before - drawn.len();
    }
    let name = if what == For::Miri { "miri" } else { "native" };
    let compiled = compile::compile(name, drawn)?;
    let programs = &compiled.programs;
    figures.compiled += programs.len();
    figures.threads += programs.iter().filter(|program| program.traits.threads).count();
    let mut failures = Vec::new();
    let strong = |program: &&Program| program.traits.threads && program.traits.open;
    for (way, numbers) in groups(programs, models) {
        let found = run::run(way, &compiled.executable, &compiled.source, &numbers)?;
        failures.extend(found.into_iter().map(|failure| (way, failure)));
    }
    figures.run += programs.len();
    if what == For::Miri {
        figures.open += programs.iter().filter(strong).count();
    }
    let mut kinds = std::collections::BTreeSet::new();
    for (way, failure) in &failures {
        figures.failed += 1;
        println!("program {} ({way:?}): {}", failure.number, failure.why);
        if kinds.insert(shrink::kind(&failure.why)) && shrinks {
            let program = programs.iter().find(|program| program.number == failure.number);
            if let Some(program) = program {
                tell(*way, seed, program, failure)?;
            }
        }
    }
    Ok(!failures.is_empty())
}

/// Which programs are run how.
fn groups(programs: &[Program], models: &[Model]) -> Vec<(Way, Vec<u64>)> {
    let numbers = |weak: Option<bool>| {
        let fits = |program: &&Program| {
            let strong = program.traits.threads && program.traits.open;
            weak.is_none_or(|weak| weak != strong)
        };
        programs.iter().filter(fits).map(|program| program.number).collect::<Vec<u64>>()
    };
    let mut groups = match models {
        [] => vec![(Way::Native, numbers(None))],
        models => models
            .iter()
            .flat_map(|model| {
                [true, false].map(|weak| (Way::Miri { model: *model, weak }, numbers(Some(weak))))
            })
            .collect(),
    };
    groups.retain(|(_, numbers)| !numbers.is_empty());
    groups
}

/// Makes a failing program short, and says where it is and how it is run again.
fn tell(way: Way, seed: u64, program: &Program, failure: &Failure) -> Result<()> {
    let lines = shrink::shrink(way, program, &failure.why)?;
    let short = Program { number: program.number, lines, traits: program.traits };
    let path = paths::below_target("programs")?.join(format!("failed_{seed}_{}.rs", short.number));
    fs::write(&path, format!("// {}\n{}", failure.why, short.text()))?;
    println!("{}", short.text());
    let miri = match way {
        Way::Native => String::new(),
        Way::Miri { model, .. } => format!(" --miri --model {model}"),
    };
    println!("it is in {}; again:", path.display());
    let number = program.number;
    println!("  cargo xtask programs --seed {seed} --from {number} --count 1{miri}");
    Ok(())
}

/// What `cargo xtask test` runs: a fixed seed, natively and under Miri.
pub fn quick() -> Result<()> {
    check::check(&table::read()?)?;
    for (miri, count) in [(false, 300), (true, 24)] {
        let (seed, from) = (Some(1), 0);
        let (model, print) = (None, None);
        let (check, record, all) = (false, false, false);
        let args = Args { seed, count, from, miri, model, print, check, record, all };
        if main(args)? != ExitCode::SUCCESS {
            bail!("a generated program failed");
        }
    }
    Ok(())
}
