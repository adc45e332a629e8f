//! `cargo xtask night`: the long searches, which changes do not wait for. Each part is a `cargo
//! xtask` command in a separate process with a timeout. Seed and turn come from the clock, or from
//! the number of the CI run; a commit cannot choose them.

use std::env;
use std::fs::{self, File};
use std::process::{Command, ExitCode, ExitStatus, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};

use crate::sh::tail;
use crate::{Outcome, deadline, paths};

/// The time limit of a part.
const MINUTES: u64 = 90;
/// The exit code of GNU timeout after it killed its command.
const TIMED_OUT: i32 = 124;

/// The name of a part, and its arguments for `cargo xtask`. `SEED` is the seed; `TURN/K` is one of
/// K turns, which repeat after K nights.
type Part = (&'static str, &'static str);

const PARTS: [Part; 32] = [
    ("interop", "test interop"),
    ("kernels-host", "test kernels --library host"),
    ("kernels-newest", "test kernels --library newest"),
    ("siw", "test siw"),
    ("rdma-sys", "test rdma-sys"),
    ("overhead", "overhead"),
    ("loom", "test loom-whole"),
    ("aarch64", "test aarch64"),
    ("musl", "test musl"),
    ("pages", "test pages"),
    ("what-c-does", "what-c-does --kernels"),
    ("perftest-host", "test perftest --library host"),
    ("perftest-newest", "test perftest --library newest"),
    ("two-hosts", "two-hosts"),
    ("differential", "suite differential --soft-roce -- --programs 100 --seed SEED"),
    ("load", "suite load -- --queue-pairs 1000 --messages 1000000"),
    ("soak", "suite load --soft-roce -- --queue-pairs 64 --seconds 600"),
    ("miri-stacked", "miri --model stacked-borrows --seed SEED"),
    ("miri-tree", "miri --model tree-borrows --seed SEED"),
    ("miri-weak", "miri --weak --seed SEED"),
    ("miri-leaks", "miri --leaks --seed SEED"),
    ("miri-big-endian", "miri --big-endian --seed SEED"),
    ("address", "sanitize address"),
    ("thread", "sanitize thread"),
    ("memcheck", "sanitize memcheck"),
    ("fuzz", "fuzz --seconds 600 --seed SEED"),
    ("simulation", "suite simulation -- --steps 10000000 --seed SEED"),
    ("programs", "programs --count 500 --turns 40 --seed SEED"),
    ("programs-miri", "programs --miri --count 300 --turns 2 --seed SEED"),
    ("mutants", "mutants --turn TURN/28"),
    ("rules", "rules --mutate --turn TURN/7"),
    ("package", "package --verify --policy"),
];

#[derive(clap::Args)]
pub struct Args {
    /// Run only these parts, in this order [default: all of them, which takes a night]
    #[arg(value_parser = PARTS.map(|(name, _)| name))]
    parts: Vec<String>,
    /// The seed of the searches [default: the time in seconds]
    #[arg(long)]
    seed: Option<u64>,
    /// The turn of the long lists [default: the day]
    #[arg(long)]
    turn: Option<u64>,
    /// Print the command line of each part, and run nothing.
    #[arg(long)]
    list: bool,
}

pub fn main(args: &Args) -> Outcome {
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
    let (seed, turn) = (args.seed.unwrap_or(now), args.turn.unwrap_or(now / 86400));
    let named = |name: &String| PARTS.into_iter().find(|part| part.0 == name);
    let parts: Vec<Part> = match args.parts.is_empty() {
        true => PARTS.to_vec(),
        false => args.parts.iter().filter_map(named).collect(),
    };
    println!("seed {seed}, turn {turn}");
    let mut table = Vec::new();
    let mut failures = Vec::new();
    for (name, line) in parts {
        let words = words(line, seed, turn)?;
        let command = format!("cargo xtask {}", words.join(" "));
        if args.list {
            println!("{name:<16} {command}");
            continue;
        }
        let log = paths::below_target("night")?.join(format!("{name}.log"));
        println!("==> {name}: {command} (seed {seed}, turn {turn}; log: {})", log.display());
        let start = Instant::now();
        let out = File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
        let status = run(&words, out)?;
        let seconds = start.elapsed().as_secs();
        let result = result(status);
        println!("    {result} after {seconds} s");
        table.push(format!("{result:<9} {seconds:>6} s  {name}"));
        if !status.success() {
            let said = fs::read(&log).with_context(|| format!("cannot read {}", log.display()))?;
            println!("{}", tail(&String::from_utf8_lossy(&said), 40));
            failures
                .push(format!("{name} {result}; its log: {}; again:\n  {command}", log.display()));
        }
    }
    for line in table.iter().chain(&failures) {
        println!("{line}");
    }
    Ok(ExitCode::from(u8::from(!failures.is_empty())))
}

/// The words of a part's command line.
fn words(line: &str, seed: u64, turn: u64) -> Result<Vec<String>> {
    let word = |word: &str| match word.strip_prefix("TURN/") {
        Some(of) => {
            let of: u64 = of.parse()?;
            ensure!(of != 0, "`{line}` has no turns");
            Ok(format!("{}/{of}", turn % of + 1))
        }
        None if word == "SEED" => Ok(seed.to_string()),
        None => Ok(word.to_owned()),
    };
    line.split(' ').map(word).collect()
}

/// Runs `cargo xtask WORDS` within the time limit. When it exits, or we do, the whole process group
/// is killed.
fn run(words: &[String], out: File) -> Result<ExitStatus> {
    let limit = Duration::from_secs(60 * MINUTES);
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "TERM", "timeout", "--kill-after=60"]);
    command.arg(limit.as_secs().to_string()).arg(env::current_exe()?).args(words);
    command.env(deadline::VARIABLE, deadline::after(limit)?);
    command.stdin(Stdio::null()).stderr(out.try_clone()?).stdout(out);
    command.status().context("cannot run setpriv (util-linux) and timeout (coreutils)")
}

fn result(status: ExitStatus) -> &'static str {
    match status.code() {
        Some(0) => "passed",
        Some(TIMED_OUT) => "timed out",
        _ => "FAILED",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[test]
    fn each_part_is_a_command() {
        for (name, line) in PARTS {
            let words = words(line, 7, 30).expect("a line");
            let all = [&["cargo xtask".to_owned()], &words[..]].concat();
            crate::Cli::try_parse_from(all).unwrap_or_else(|error| panic!("{name}: {error}"));
        }
    }

    #[test]
    fn turns_come_round() {
        let turns = (0..8).map(|turn| words("mutants --turn TURN/7", 1, turn).expect("a line"));
        let turns: Vec<String> = turns.map(|words| words[2].clone()).collect();
        assert_eq!(turns, ["1/7", "2/7", "3/7", "4/7", "5/7", "6/7", "7/7", "1/7"]);
    }
}
