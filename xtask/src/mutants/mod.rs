//! `cargo xtask mutants`: does a test notice when run-time logic is changed?
//!
//! Mutants are drawn from all logic that runs: a comparison shifted, a statement deleted, a
//! condition that is always true, SEND for RECEIVE. They all stand in one build, each behind a
//! switch that a variable of the environment turns (`PROVERBS_MUTANT=17`). A first run without any
//! notes which test reaches which, so for each only those run, fastest first, up to the first that
//! fails. A test that sleeps for ever has noticed too.

mod find;
mod guest;
mod harmless;
mod report;
mod splice;
mod suite;
mod swaps;
mod tree;
mod watch;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::setup::{self, Group};
use crate::sh::two_at_a_time;
use crate::wrap::wrap;
use crate::{Outcome, paths};
use find::{Candidate, candidates};
use harmless::{Entries, Entry};
use report::{Report, Verdict};
use splice::Mutant;
use suite::{Place, Suites};
use tree::{Sources, Tree};
use watch::Seen;

#[derive(clap::Args)]
pub struct Args {
    /// What the sample is drawn with. Code that does not change keeps its place in the draw.
    #[arg(long, default_value_t = GATE_SEED)]
    seed: u64,
    /// How many mutants; all of them is some thousands.
    #[arg(long, default_value_t = GATE_SAMPLE)]
    sample: usize,
    /// Leave out so many of the first, which an earlier run of this seed has judged.
    #[arg(long, default_value_t = 0)]
    skip: usize,
    /// Only in files whose path begins so: `src/completion`. May be given more than once.
    #[arg(long, value_name = "PATH")]
    folder: Vec<String>,
    /// Instead of a sample, the mutants that a file names, as tests/mutants/harmless.toml does.
    #[arg(long, value_name = "FILE")]
    entries: Option<PathBuf>,
    /// Of what a kernel's device alone reaches whole (rdma_cm, the calls of libibverbs): what the
    /// loopback device does not show is judged in the guest. Else of the rest.
    #[arg(long)]
    guest: bool,
    /// Stop after so many minutes of judging, and tell what came of the first of the sample.
    #[arg(long)]
    minutes: Option<u64>,
    /// Leave out tests that take longer than half a second: what they alone notice is told as not
    /// noticed.
    #[arg(long)]
    quick: bool,
    /// Fail if less than 95 of 100 are noticed, of those that are not harmless.
    #[arg(long)]
    gate: bool,
    /// Run nothing: tell again what the last run found, with the list of harmless ones as it is
    /// now.
    #[arg(long)]
    again: bool,
    /// Write tests/mutants/RESULTS.md, or GUEST.md.
    #[arg(long)]
    record: bool,
    /// In the guest: what is to be judged.
    #[arg(long, hide = true)]
    judge: Option<PathBuf>,
}

const GATE_SEED: u64 = 12;
const GATE_SAMPLE: usize = 100;
/// Of 100 that are not harmless.
const NOTICED_AT_LEAST: usize = 95;
/// The changes that nobody can notice.
const HARMLESS: &str = "tests/mutants/harmless.toml";

/// What is not looked at: the device for tests, layouts of C, and what stands in for a user's code
/// in examples.
const NOT_LOGIC: [&str; 3] = ["src/loopback/", "src/sys/bindings/", "src/guide/"];
/// A loopback device shows a part of these: they speak with rdma_cm and libibverbs, which need a
/// kernel's device.
const OF_GUEST: [&str; 7] = [
    "src/cm/",
    "src/sys/cm/",
    "src/sys/control.rs",
    "src/sys/device.rs",
    "src/sys/extended.rs",
    "src/sys/events.rs",
    "src/qp/multicast.rs",
];
/// And these: by the way of rdma_cm, and the library's own tables of GIDs.
const GUEST_FUNCTIONS: [&str; 5] = [
    "QueuePair::modify_by_cm",
    "QueuePair::check_pd",
    "ProtectionDomain::upgrade",
    "query_gid_ex",
    "query_gid_table",
];
/// But these need no device.
const HERE_FUNCTIONS: [&str; 2] = ["fork_init", "fork_status"];

pub fn main(args: Args) -> Outcome {
    if let Some(job) = &args.judge {
        return guest::main(job);
    }
    let kept = paths::below_target("mutants")?.join("last.json");
    let report = if args.again {
        let harmless = Entries::read(&paths::workspace().join(HARMLESS))?;
        Report::kept(&kept, &harmless)?
    } else {
        let report = run(&args)?;
        report.keep(&kept)?;
        report
    };
    report.print();
    if args.record {
        let name = if args.guest { "GUEST.md" } else { "RESULTS.md" };
        let page = report.page(&args.command())?;
        fs::write(paths::workspace().join("tests/mutants").join(name), wrap(&page))?;
    }
    if args.gate && !report.reaches(NOTICED_AT_LEAST) {
        bail!("less than {NOTICED_AT_LEAST} of 100 mutants were noticed");
    }
    Ok(ExitCode::SUCCESS)
}

impl Args {
    fn command(&self) -> String {
        let mut text = format!("cargo xtask mutants --seed {} --sample {}", self.seed, self.sample);
        if self.skip != 0 {
            text += &format!(" --skip {}", self.skip);
        }
        for folder in &self.folder {
            text += &format!(" --folder {folder}");
        }
        if self.guest {
            text += " --guest";
        }
        if let Some(minutes) = self.minutes {
            text += &format!(" --minutes {minutes}");
        }
        text + " --record"
    }
}

fn run(args: &Args) -> Result<Report> {
    setup::ensure(&[Group::Build])?;
    let root = paths::workspace();
    let sources = sources(&root)?;
    let mut all = Vec::new();
    for (file, text) in sources.iter().filter(|(file, _)| has_logic(file)) {
        all.extend(candidates(file, text)?);
    }
    let mut harmless = Entries::read(&root.join(HARMLESS))?;
    harmless.follow(&all);
    let stale = harmless.stale(&all);
    for Entry { file, function, line, change, .. } in &stale {
        eprintln!("{file} {function}: {change}\n    {line}");
    }
    if !stale.is_empty() {
        bail!("{HARMLESS} names {} that are not there, or no reason for them", stale.len());
    }
    // Named with the rest, so that the list of harmless ones is one.
    all.retain(|candidate| args.entries.is_some() || in_guest(candidate) == args.guest);
    let total = all.len();
    let (drawn, harmless) = match &args.entries {
        Some(path) => {
            let mut wanted = Entries::read(path)?;
            wanted.follow(&all);
            all.retain(|candidate| wanted.find(candidate).is_some());
            (all, Entries::default())
        }
        None => (order(all, args).into_iter().skip(args.skip).collect(), harmless),
    };
    eprintln!("{total} places and ways to change the logic");
    let tree = Tree::new(&root)?;
    let wanted = if args.entries.is_some() { drawn.len() } else { args.sample };
    // A few more than were asked for: those that do not compile are nobody's.
    let (mut report, mut mutants) = (Report::default(), Vec::new());
    let drawn: Vec<Candidate> = drawn.into_iter().take(wanted + 2 + wanted / 25).collect();
    for candidate in &drawn {
        if harmless.find(candidate).is_none() {
            mutants.push(Mutant { id: mutants.len() as u32 + 1, at: candidate.clone() });
        }
    }
    let build = tree.build(&sources, &mut mutants)?;
    for mutant in &build.dropped {
        let Candidate { file, line, what, .. } = &mutant.at;
        eprintln!("does not compile: {file}:{line} {what}");
    }
    let kept = |one: &&Candidate| !build.dropped.iter().any(|out| Entry::of(&out.at).is(one));
    let sample: Vec<&Candidate> = drawn.iter().filter(kept).take(wanted).collect();
    mutants.retain(|mutant| sample.iter().any(|one| Entry::of(one).is(&mutant.at)));
    let mut verdicts = judge(&Suites::trace(Place::Here, &build.executables)?, &mutants, args)?;
    if args.guest {
        let left: Vec<&Mutant> = unnoticed(&verdicts).collect();
        eprintln!("{} of {} go to the guest", left.len(), mutants.len());
        let mut there = guest::judge(&build.executables, &left)?.into_iter();
        for (_, verdict) in verdicts.iter_mut().filter(|(_, verdict)| verdict.is_unnoticed()) {
            *verdict = there.next().context("the guest judged fewer than it was given")?.1;
        }
    }
    for candidate in sample {
        if mutants.get(verdicts.len()).is_some_and(|next| Entry::of(candidate).is(&next.at)) {
            break; // the first that no time was left for
        }
        if let Some(entry) = harmless.find(candidate) {
            report.add(candidate, &sources, Verdict::Harmless(entry.why.clone()));
        }
    }
    for (mutant, verdict) in verdicts {
        report.add(&mutant.at, &sources, verdict);
    }
    report.leave(&paths::below_target("mutants")?.join("unnoticed.toml"))?;
    Ok(report)
}

fn unnoticed<'m>(verdicts: &[(&'m Mutant, Verdict)]) -> impl Iterator<Item = &'m Mutant> {
    verdicts.iter().filter(|(_, verdict)| verdict.is_unnoticed()).map(|(mutant, _)| *mutant)
}

/// What each mutant does to the tests that reach it; of as many, from the first on, as there is
/// time for.
fn judge<'m>(
    suites: &Suites,
    mutants: &'m [Mutant],
    args: &Args,
) -> Result<Vec<(&'m Mutant, Verdict)>> {
    let (done, unnoticed) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let end = args.minutes.map(|minutes| Instant::now() + Duration::from_secs(60 * minutes));
    let verdicts = two_at_a_time(mutants, |_, mutant| {
        if end.is_some_and(|end| Instant::now() >= end) {
            return Ok(None);
        }
        let verdict = verdict(suites, mutant.id, args.quick)?;
        if verdict.is_unnoticed() {
            let Candidate { file, line, function, what, before, .. } = &mutant.at;
            eprintln!("not noticed: {file}:{line} {function}: {what}\n    {before}");
            unnoticed.fetch_add(1, Ordering::Relaxed);
        }
        let done = done.fetch_add(1, Ordering::Relaxed) + 1;
        if done % 50 == 0 || done == mutants.len() {
            let unnoticed = unnoticed.load(Ordering::Relaxed);
            eprintln!("{done} of {} run, {unnoticed} not noticed", mutants.len());
        }
        Ok(Some(verdict))
    })?;
    Ok(mutants.iter().zip(verdicts.into_iter().map_while(|verdict| verdict)).collect())
}

fn verdict(suites: &Suites, id: u32, quick: bool) -> Result<Verdict> {
    let chunks = suites.reaching(id);
    if chunks.is_empty() {
        return Ok(Verdict::NotReached);
    }
    for chunk in chunks.iter().filter(|chunk| !quick || chunk.slowest < 10 * suite::SLOW) {
        match watch::run(chunk, id)? {
            Seen::Passed => {}
            Seen::Failed(by) => return Ok(Verdict::Noticed(by)),
            Seen::Hung(by) => return Ok(Verdict::Noticed(format!("no end: {by}"))),
        }
    }
    Ok(Verdict::NotNoticed)
}

/// All sources of the crate.
pub fn sources(root: &Path) -> Result<Sources> {
    let (mut sources, mut folders) = (Sources::new(), vec![root.join("src")]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(root)?.to_string_lossy().into_owned();
                sources.insert(name, fs::read_to_string(&path)?);
            }
        }
    }
    ensure!(!sources.is_empty(), "no sources below {}", root.display());
    Ok(sources)
}

fn has_logic(file: &str) -> bool {
    let tests = file.ends_with("tests.rs")
        || file.ends_with("/stub.rs")
        || file.contains("tests/")
        || !file.ends_with(".rs");
    !tests && !NOT_LOGIC.iter().any(|path| file.starts_with(path))
}

fn in_guest(candidate: &Candidate) -> bool {
    let function = candidate.function.as_str();
    let is_only = OF_GUEST.iter().any(|path| candidate.file.starts_with(path));
    is_only && !HERE_FUNCTIONS.contains(&function) || GUEST_FUNCTIONS.contains(&function)
}

/// In the order of a number that the seed and the content of each give, so that an edit, or a move
/// to another file, moves nothing else.
fn order(mut all: Vec<Candidate>, args: &Args) -> Vec<Candidate> {
    if !args.folder.is_empty() {
        all.retain(|candidate| args.folder.iter().any(|path| candidate.file.starts_with(path)));
    }
    all.sort_by_cached_key(|one| {
        let name =
            format!("{} {} {} {} {}", args.seed, one.function, one.before, one.what, one.nth);
        // FNV-1a, and then the finish of MurmurHash3, as its upper bits are poor.
        let mut hash = 0xcbf2_9ce4_8422_2325_u64;
        for byte in name.bytes() {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        }
        hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
        hash ^ (hash >> 33)
    });
    all
}
