//! `cargo xtask programs`: safe programs, written from a table of the public calls and a seed; what
//! compiles is run.
//!
//! | file | what |
//! |---|---|
//! | tests/programs/calls.toml, `table`, `term` | the calls: what they take, give and borrow |
//! | `check` | the table against the public interface |
//! | `draw`, `call`, `habits`, `body`, `dice` | the text of a program, drawn |
//! | `line`, `choice` | what each of its turns makes of it: a text is compiled once, and run as many programs |
//! | `compile` | rustc is the filter |
//! | `run`, `shrink` | natively and under Miri; what fails is made short |
//! | tests/programs/src | what the programs have around them, and what must hold for each |

mod body;
mod call;
mod check;
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

use anyhow::{Result, bail};

use crate::miri::Model;
use crate::setup::{self, Group};
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
    #[arg(long)]
    model: Option<Model>,
    /// Print a text, or with --turn a program, instead of running it.
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
    /// With threads, or whose text has them.
    threads: usize,
    /// Under Miri without weak memory: threads, and memory that is open to the fabric.
    open: usize,
    failed: usize,
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Figures { seed, texts, compiled, run, miri, threads, open, failed } = self;
        write!(f, "seed {seed}: {texts} texts drawn, {compiled} compiled, run as {run} programs")?;
        write!(f, " ({threads} with threads), {failed} failed")?;
        if *miri {
            write!(
                f,
                "; {} with weak memory, {open} without, since they have threads and open memory",
                run - open
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
    turns: Range<u64>,
    shrinks: bool,
    first: bool,
}

pub fn main(args: Args) -> Outcome {
    setup::ensure(&[Group::Build])?;
    if args.miri {
        toolchain::nightly()?;
    }
    let table = table::read()?;
    if args.check {
        check::check(&table)?;
        return Ok(ExitCode::SUCCESS);
    }
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
    let asked =
        Asked { seed, what, models, turns, shrinks: !(args.all || args.first), first: args.first };
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
    if args.record {
        let miri = match (args.miri, args.short) {
            (true, _) => " --miri",
            (_, true) => " --short",
            _ => "",
        };
        let texts = from - args.from;
        let turns = asked.turns.end;
        let command = format!(
            "cargo xtask programs --seed {seed} --count {texts} --turns {turns}{miri} --record"
        );
        let section = if args.miri { "programs-miri" } else { "programs" };
        crate::figures::record(section, &command, &figures.to_string())?;
    } else {
        println!("{figures}");
    }
    println!("{:.1} s", started.elapsed().as_secs_f64());
    Ok(ExitCode::from(if figures.failed != 0 { FAILED } else { 0 }))
}

/// Draws, compiles and runs some; whether one failed.
fn some(table: &Table, asked: &Asked, numbers: Range<u64>, figures: &mut Figures) -> Result<bool> {
    let Asked { seed, what, models, turns, shrinks, first } = asked;
    let drawn: Vec<Program> =
        numbers.map(|number| draw::draw(table, *seed, number, *what)).collect();
    figures.texts += drawn.len();
    let name = if *what == For::Miri { "miri" } else { "native" };
    let compiled = compile::compile(name, drawn)?;
    let programs = &compiled.programs;
    figures.compiled += programs.len();
    let mut failures = Vec::new();
    for group in groups(programs, models, *what) {
        let job = |program: &&Program| Job { number: program.number, turns: turns.clone() };
        let jobs: Vec<Job> = group.programs.iter().map(job).collect();
        let ran = run::run(group.way, &compiled.executable, &compiled.source, &jobs, *first)?;
        failures.extend(ran.failures.into_iter().map(|failure| (group.way, failure)));
        // What runs in both borrow models is one program.
        if group.is_counted {
            figures.run += ran.turns;
            figures.threads += if group.threads { ran.turns } else { 0 };
            figures.open += if group.open { ran.turns } else { 0 };
        }
        if *first && !failures.is_empty() {
            break;
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
    programs: Vec<&'a Program>,
    threads: bool,
    open: bool,
    is_counted: bool,
}

/// Which programs are run how.
fn groups<'a>(programs: &'a [Program], models: &[Model], what: For) -> Vec<Grouped<'a>> {
    let mut ways = Vec::new();
    for (i, model) in models.iter().enumerate() {
        ways.extend([true, false].map(|weak| (Way::Miri { model: *model, weak }, i == 0)));
    }
    if models.is_empty() {
        ways.push((Way::Native { short: what == For::Miri }, true));
    }
    let mut groups = Vec::new();
    for (way, is_counted) in ways {
        for threads in [false, true] {
            let fits = |program: &&Program| {
                let strong = program.traits.threads && program.traits.open;
                let weak = match way {
                    Way::Native { .. } => true,
                    Way::Miri { weak, .. } => weak != strong,
                };
                weak && program.traits.threads == threads
            };
            let open = matches!(way, Way::Miri { weak: false, .. });
            let programs: Vec<&Program> = programs.iter().filter(fits).collect();
            if !programs.is_empty() {
                groups.push(Grouped { way, programs, threads, open, is_counted });
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
        Way::Miri { model, .. } => format!(" --miri --model {model}"),
    };
    println!("it is in {}; again:", path.display());
    println!("  cargo xtask programs --seed {seed} --from {number} --count 1 --turn {turn}{miri}");
    Ok(())
}

/// What `cargo xtask test` runs: a fixed seed, natively and under Miri.
pub fn quick() -> Result<()> {
    check::check(&table::read()?)?;
    for (miri, count, turns) in [(false, 60, 20), (true, 24, 1)] {
        let (seed, from, turns) = (Some(1), 0, Some(turns));
        let (turn, model, print, minutes) = (None, None, None, None);
        let (check, record, all, first, short) = (false, false, false, false, false);
        let args = Args {
            seed,
            count,
            from,
            turns,
            turn,
            miri,
            short,
            model,
            print,
            check,
            record,
            all,
            first,
            minutes,
        };
        if main(args)? != ExitCode::SUCCESS {
            bail!("a generated program failed");
        }
    }
    Ok(())
}
