//! `cargo xtask programs`: generates safe programs from functions that make public calls, and a
//! seed. Runs the programs that compile.
//! | file | contents |
//! |---|---|
//! | tests/programs/src/calls, `table`, `term` | the calls: their arguments, results and borrows |
//! | `draw`, `call`, `habits`, `body`, `dice` | generate the text of a program |
//! | `compile` | removes the programs that rustc rejects |
//! | `run` | runs them natively and under Miri |
//! | tests/programs/src | the runtime of the programs, the choices of each turn, and the checks |

mod body;
mod call;
mod compile;
mod draw;
mod habits;
mod run;
mod table;
mod term;

use std::fmt;
use std::ops::Range;
use std::process::ExitCode;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use anyhow::Result;

use crate::miri::Model;
use crate::setup::{self, Group};
use crate::sh::two_at_a_time;
use crate::{Outcome, toolchain};
use draw::Program;
use run::{Failure, Job, Way};
use table::Table;

#[derive(clap::Args)]
pub struct Args {
    /// The seed of the programs [default: the day]
    #[arg(long)]
    seed: Option<u64>,
    /// The number of texts to generate and compile.
    #[arg(long, default_value_t = 60)]
    count: u64,
    /// The number of the first text.
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// The number of programs that each text is run as. Each chooses its own numbers, leaves out
    /// calls, and has its own device [default: 20, and 4 under Miri]
    #[arg(long)]
    turns: Option<u64>,
    /// Run only this program of a text.
    #[arg(long, value_name = "NUMBER")]
    turn: Option<u64>,
    /// Run them under Miri, with the turns of a text alternating between the borrow models.
    #[arg(long)]
    miri: bool,
    /// Only one borrow model.
    #[arg(long, requires = "miri")]
    model: Option<Model>,
}

/// The number of texts in one crate: natively as many as compile in a minute, under Miri as many as
/// run in a few minutes.
const CRATE: u64 = 150;
const CRATE_OF_MIRI: u64 = 20;

/// The results of the programs.
#[derive(Default)]
struct Figures {
    seed: u64,
    texts: usize,
    compiled: usize,
    run: usize,
    failed: usize,
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Figures { seed, texts, compiled, run, failed } = self;
        write!(
            f,
            "seed {seed}: {texts} texts generated, {compiled} compiled, run as {run} programs, "
        )?;
        write!(f, "{failed} failed")
    }
}

pub fn main(args: Args) -> Outcome {
    setup::ensure(&[Group::Build])?;
    if args.miri {
        toolchain::nightly()?;
    }
    let table = table::read()?;
    let day = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs() / 86400;
    let seed = args.seed.unwrap_or(day);
    let started = Instant::now();
    let mut figures = Figures { seed, ..Figures::default() };
    eprintln!("seed {seed}");
    let mut from = args.from;
    let end = args.from + args.count;
    while from < end && figures.failed == 0 {
        let to = (from + if args.miri { CRATE_OF_MIRI } else { CRATE }).min(end);
        some(&table, &args, from..to, &mut figures)?;
        from = to;
        eprintln!("{figures}, {:.0} s", started.elapsed().as_secs_f64());
    }
    println!("{figures}");
    Ok(ExitCode::from(u8::from(figures.failed != 0)))
}

/// Generates, compiles and runs some programs.
fn some(table: &Table, args: &Args, numbers: Range<u64>, figures: &mut Figures) -> Result<()> {
    let seed = figures.seed;
    let drawn: Vec<Program> =
        numbers.map(|number| draw::draw(table, seed, number, args.miri)).collect();
    figures.texts += drawn.len();
    let compiled = compile::compile(if args.miri { "miri" } else { "native" }, drawn)?;
    figures.compiled += compiled.programs.len();
    let groups = groups(&compiled.programs, args);
    let run = |group: &(Way, Vec<Job>)| {
        let (way, jobs) = group;
        run::run(*way, &compiled.executable, &compiled.source, jobs)
    };
    // Miri has one thread.
    let ran = match args.miri {
        true => two_at_a_time(&groups, |_, group| run(group))?,
        false => groups.iter().map(run).collect::<Result<_>>()?,
    };
    for ((way, _), ran) in groups.iter().zip(ran) {
        figures.run += ran.turns;
        figures.failed += ran.failures.len();
        for Failure { number, turn, why } in &ran.failures {
            let miri = match way {
                Way::Native => String::new(),
                Way::Miri { model, .. } => format!(" --miri --model {model}"),
            };
            println!("program {number}, turn {turn} ({way:?}): {why}");
            let text = compiled.programs.iter().find(|program| program.number == *number);
            println!("{}again:", text.map(Program::text).unwrap_or_default());
            let program = format!("--seed {seed} --from {number} --count 1 --turn {turn}");
            println!("  cargo xtask programs {program}{miri}");
        }
    }
    Ok(())
}

/// The turns of the programs, and how to run each.
fn groups(programs: &[Program], args: &Args) -> Vec<(Way, Vec<Job>)> {
    let turns = match args.turn {
        Some(turn) => turn..turn + 1,
        None => 0..args.turns.unwrap_or(if args.miri { 4 } else { 20 }),
    };
    if !args.miri {
        let job = |program: &Program| Job { number: program.number, turns: turns.clone() };
        return vec![(Way::Native, programs.iter().map(job).collect())];
    }
    let mut groups = Vec::new();
    let models = [Model::StackedBorrows, Model::TreeBorrows];
    for (at, model) in models.into_iter().enumerate() {
        for (threads, open) in [(false, false), (true, false), (true, true)] {
            let fits = |program: &&Program| {
                let has = program.traits;
                has.threads == threads && (has.threads && has.open) == open
            };
            let jobs = |program: &Program| {
                let number = program.number;
                let is_here = move |turn: &u64| match args.model {
                    Some(one) => one == model,
                    None => (number + turn) % 2 == at as u64,
                };
                let here = turns.clone().filter(is_here);
                here.map(move |turn| Job { number, turns: turn..turn + 1 }).collect::<Vec<_>>()
            };
            let jobs: Vec<Job> = programs.iter().filter(fits).flat_map(jobs).collect();
            if !jobs.is_empty() {
                groups.push((Way::Miri { model, threads, weak: threads && !open }, jobs));
            }
        }
    }
    groups
}
