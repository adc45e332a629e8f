//! `cargo xtask programs`: safe programs, written from functions that make public calls, and a
//! seed. Programs that compile are run.
//!
//! | file | what |
//! |---|---|
//! | tests/programs/src/calls, `table`, `term` | the calls: what they take, give and borrow |
//! | `draw`, `call`, `habits`, `body`, `dice` | the text of a program, drawn |
//! | `line`, `choice` | what each of its turns makes of it: a text is compiled once, and run as many programs |
//! | `compile` | rustc is the filter |
//! | `run`, `shrink` | natively and under Miri; what fails is made short |
//! | tests/programs/src | what the programs have around them, and what must hold for each |

mod body;
mod call;
#[path = "../../../tests/programs/src/choice.rs"]
mod choice;
mod compile;
mod dice;
mod draw;
mod habits;
mod line;
mod run;
mod shrink;
mod table;
mod term;

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::ops::Range;
use std::process::ExitCode;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use anyhow::Result;

use crate::miri::Model;
use crate::setup::{self, Group};
use crate::sh::two_at_a_time;
use crate::{Outcome, paths, toolchain};
use draw::{For, Program};
use run::{Failure, Job, Way};
use table::Table;

#[derive(clap::Args)]
pub struct Args {
    /// What the programs are drawn from; without, the day.
    #[arg(long)]
    seed: Option<u64>,
    /// How many texts are drawn and compiled.
    #[arg(long, default_value_t = 60)]
    count: u64,
    /// The first one's number.
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// How many programs each text is run as: each chooses its own numbers, leaves calls out, and
    /// has its own device. Without, 20, and 4 under Miri.
    #[arg(long)]
    turns: Option<u64>,
    /// Only this one of a text's programs.
    #[arg(long, value_name = "NUMBER")]
    turn: Option<u64>,
    /// Run them under Miri.
    #[arg(long)]
    miri: bool,
    /// The programs that are drawn for Miri, natively: a thousand in the time of one.
    #[arg(long, conflicts_with = "miri")]
    short: bool,
    /// One borrow model only.
    #[arg(long, requires = "miri")]
    model: Option<Model>,
    /// Run a text's turns in one borrow model and in the other by turns, instead of all in both.
    #[arg(long, requires = "miri", conflicts_with = "model")]
    alternate: bool,
    /// Under Miri with a std whose functions are inlined into each other: a program costs about
    /// half. Building it takes a minute or two, once.
    #[arg(long, requires = "miri")]
    inlined: bool,
    /// Print a text, or with --turn a program, instead of running it.
    #[arg(long, value_name = "NUMBER")]
    print: Option<u64>,
    /// Go on after failures, and do not make them short.
    #[arg(long)]
    all: bool,
    /// End with the first failure, and do not make it short.
    #[arg(long)]
    first: bool,
    /// Begin nothing more after so many minutes.
    #[arg(long)]
    minutes: Option<u64>,
}

/// Texts in one crate: natively as many as compile in a minute, under Miri as many as run in some.
const CRATE: u64 = 150;
const CRATE_OF_MIRI: u64 = 20;

/// What it exits with if a program failed.
pub const FAILED: u8 = 7;

/// What became of the programs.
#[derive(Default)]
struct Figures {
    seed: u64,
    texts: usize,
    compiled: usize,
    run: usize,
    miri: bool,
    /// Under Miri: in Stacked Borrows and in Tree Borrows. A program may be in both.
    models: [usize; 2],
    /// With threads, or whose text has them.
    threads: usize,
    /// Under Miri without weak memory: threads, and memory that is open to the fabric.
    open: usize,
    failed: usize,
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Figures { seed, texts, compiled, run, miri, models, threads, open, failed } = self;
        write!(f, "seed {seed}: {texts} texts drawn, {compiled} compiled, run as {run} programs")?;
        write!(f, " ({threads} with threads), {failed} failed")?;
        if *miri {
            let [stacked, tree] = models;
            write!(
                f,
                "; {stacked} in Stacked Borrows, {tree} in Tree Borrows; of those with threads"
            )?;
            let weak = threads - open;
            write!(
                f,
                " {weak} with weak memory, {open} without, since two threads touch open memory"
            )?;
        }
        Ok(())
    }
}

/// What is asked for.
struct Asked {
    seed: u64,
    what: For,
    models: Vec<Model>,
    alternate: bool,
    inlined: bool,
    turns: Range<u64>,
    shrinks: bool,
    first: bool,
}

impl Asked {
    /// The turns of a program that are run in one of the models: in all of them, or every second.
    fn turns_in(&self, model: usize, number: u64) -> Vec<Range<u64>> {
        if !self.alternate {
            return vec![self.turns.clone()];
        }
        let here = self.turns.clone().filter(|turn| (number + turn) % 2 == model as u64);
        here.map(|turn| turn..turn + 1).collect()
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
    let what = if args.miri || args.short { For::Miri } else { For::Native };
    if let Some(number) = args.print {
        let program = draw::draw(&table, seed, number, what);
        match args.turn {
            Some(turn) => print!("{}", program.of_lines(number, &program.in_turn(turn)).text()),
            None => print!("{}", program.text()),
        }
        return Ok(ExitCode::SUCCESS);
    }
    let models = match (args.miri, args.model) {
        (false, _) => Vec::new(),
        (true, Some(model)) => vec![model],
        (true, None) => vec![Model::StackedBorrows, Model::TreeBorrows],
    };
    let turns = match args.turn {
        Some(turn) => turn..turn + 1,
        None => 0..args.turns.unwrap_or(if what == For::Miri { 4 } else { 20 }),
    };
    let (alternate, inlined, first) = (args.alternate, args.inlined, args.first);
    let shrinks = !(args.all || first);
    let asked = Asked { seed, what, models, alternate, inlined, turns, shrinks, first };
    let started = Instant::now();
    let mut figures = Figures { seed, miri: args.miri, ..Figures::default() };
    eprintln!("seed {seed}");
    let mut from = args.from;
    let end = args.from + args.count;
    let is_late = || args.minutes.is_some_and(|most| started.elapsed().as_secs() >= 60 * most);
    while from < end && !is_late() {
        let to = (from + if args.miri { CRATE_OF_MIRI } else { CRATE }).min(end);
        let failures = some(&table, &asked, from..to, &mut figures)?;
        from = to;
        eprintln!("{figures}, {:.0} s", started.elapsed().as_secs_f64());
        if failures && !args.all {
            break;
        }
    }
    println!("{figures}");
    println!("{:.1} s", started.elapsed().as_secs_f64());
    Ok(ExitCode::from(if figures.failed != 0 { FAILED } else { 0 }))
}

/// Draws, compiles and runs some; whether one failed.
fn some(table: &Table, asked: &Asked, numbers: Range<u64>, figures: &mut Figures) -> Result<bool> {
    let Asked { seed, what, shrinks, first, .. } = asked;
    let drawn: Vec<Program> =
        numbers.map(|number| draw::draw(table, *seed, number, *what)).collect();
    figures.texts += drawn.len();
    let name = if *what == For::Miri { "miri" } else { "native" };
    let compiled = compile::compile(name, drawn)?;
    let programs = &compiled.programs;
    figures.compiled += programs.len();
    let mut failures = Vec::new();
    let groups = groups(programs, asked);
    let run_one = |group: &Grouped| {
        let jobs = |program: &&Program| {
            let number = program.number;
            asked.turns_in(group.model, number).into_iter().map(move |turns| Job { number, turns })
        };
        let jobs: Vec<Job> = group.programs.iter().flat_map(jobs).collect();
        run::run(group.way, &compiled.executable, &compiled.source, &jobs, *first)
    };
    // Miri has one thread.
    let ran = match *what == For::Miri && !*first {
        true => two_at_a_time(&groups, |_, group| run_one(group))?,
        false => {
            let mut all = Vec::new();
            for group in &groups {
                all.push(run_one(group)?);
                if *first && all.iter().any(|ran| !ran.failures.is_empty()) {
                    break;
                }
            }
            all
        }
    };
    for (group, ran) in groups.iter().zip(ran) {
        failures.extend(ran.failures.into_iter().map(|failure| (group.way, failure)));
        figures.models[group.model] += ran.turns;
        // What runs in both borrow models is one program.
        if group.is_counted {
            figures.run += ran.turns;
            figures.threads += if group.threads { ran.turns } else { 0 };
            figures.open += if group.open { ran.turns } else { 0 };
        }
    }
    let mut kinds = BTreeSet::new();
    for (way, failure) in &failures {
        figures.failed += 1;
        let Failure { number, turn, why } = failure;
        println!("program {number}, turn {turn} ({way:?}): {why}");
        if kinds.insert(shrink::kind(why)) && *shrinks {
            let program = programs.iter().find(|program| program.number == *number);
            if let Some(program) = program {
                tell(*way, *seed, program, failure)?;
            }
        }
    }
    Ok(!failures.is_empty())
}

/// Programs that are run in one way.
struct Grouped<'a> {
    way: Way,
    /// Which of the borrow models that is.
    model: usize,
    programs: Vec<&'a Program>,
    threads: bool,
    open: bool,
    is_counted: bool,
}

/// Which programs are run how.
fn groups<'a>(programs: &'a [Program], asked: &Asked) -> Vec<Grouped<'a>> {
    let is_native = asked.models.is_empty();
    let mut groups = Vec::new();
    for at in 0..asked.models.len().max(1) {
        for (threads, open) in [(false, false), (true, false), (true, true)] {
            let way = match asked.models.get(at) {
                Some(&model) => {
                    Way::Miri { model, threads, weak: threads && !open, inlined: asked.inlined }
                }
                None => Way::Native { short: asked.what == For::Miri },
            };
            let fits = |program: &&Program| {
                let has = program.traits;
                has.threads == threads && (has.threads && has.open) == open
            };
            let programs: Vec<&Program> = programs.iter().filter(fits).collect();
            // Without --alternate, each program is in all models.
            let is_counted = is_native || asked.alternate || at == 0;
            let model = match asked.models.get(at) {
                Some(Model::TreeBorrows) => 1,
                _ => 0,
            };
            if !programs.is_empty() {
                groups.push(Grouped { way, model, programs, threads, open, is_counted });
            }
        }
    }
    groups
}

/// Makes a failing program short, and says where it is and how it is run again.
fn tell(way: Way, seed: u64, program: &Program, failure: &Failure) -> Result<()> {
    let Failure { number, turn, why } = failure;
    let lines = shrink::shrink(way, program, failure)?;
    let short = program.of_lines(*number, &lines);
    let path = paths::below_target("programs")?.join(format!("failed_{seed}_{number}_{turn}.rs"));
    fs::write(&path, format!("// {why}\n{}", short.text()))?;
    println!("{}", short.text());
    let miri = match way {
        Way::Native { short: false } => String::new(),
        Way::Native { short: true } => " --short".to_owned(),
        Way::Miri { model, inlined, .. } => {
            format!(" --miri --model {model}{}", if inlined { " --inlined" } else { "" })
        }
    };
    println!("it is in {}; again:", path.display());
    println!("  cargo xtask programs --seed {seed} --from {number} --count 1 --turn {turn}{miri}");
    Ok(())
}
