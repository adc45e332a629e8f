//! `cargo xtask what-c-does`: what happens in C when a dangerous rule is broken.
//!
//! Each program of `tests/what_c_does` breaks one rule, is accepted by gcc without a warning, and
//! is run on Soft-RoCE under a time limit, those of its directory `siw` on siw. Those of `kernel`
//! may end the kernel, so each of them has a guest of its own. How a program ends and its last line
//! must be those of `expected.toml`, which names the Rust form beside it; with another kernel or
//! library than is recorded, as when Debian mends one of them, what differs is told.

mod record;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

use crate::progress::Step;
use crate::sh::{self, Run, cmd};
use crate::soft_roce::{self, Driver, Guest, KernelCrash};
use crate::{paths, setup};
use record::{Case, Cases, Id, Record, Versions};

#[derive(clap::Args)]
pub struct Args {
    /// Run what is dangerous on this device.
    #[arg(long, value_enum, default_value_t)]
    pub driver: Driver,
    /// Take what happens now as what is expected, for a person to read and commit.
    #[arg(long, conflicts_with = "kernels")]
    pub record: bool,
    /// Run only those that may end the kernel, on every other kernel that is named.
    #[arg(long)]
    pub kernels: bool,
}

/// Those that may end the kernel, on the kernels whose kinds are recorded beside that of the first.
pub fn on_other_kernels() -> Result<()> {
    setup::ensure(&[setup::Group::Build, setup::Group::Guest])?;
    let root = paths::workspace();
    let dir = root.join("tests/what_c_does");
    let alone = programs(&dir.join("kernel"))?;
    let bin = build(&dir, &[("kernel", &alone)])?;
    let recorded = record::read(&root)?.cases;
    let mut differ = Vec::new();
    for kernel in &soft_roce::NAMED[1..] {
        for &rule in &alone {
            let seen = run_alone(&bin, rule, kernel)?;
            println!("{rule} | Linux {kernel} | {}: {} | {}", seen.end, seen.last, seen.kind);
            let expected = recorded.get(&rule).and_then(|case| case.on.get(*kernel));
            if expected != Some(&seen.kind) {
                differ.push(format!("{rule} on Linux {kernel}: {expected:?} is recorded"));
            }
        }
    }
    ensure!(differ.is_empty(), "C does not do what is recorded:\n{}", differ.join("\n"));
    Ok(())
}

pub fn run(driver: Driver, record: bool) -> Result<()> {
    setup::ensure(&[setup::Group::Build, setup::Group::Guest])?;
    let root = paths::workspace();
    let dir = root.join("tests/what_c_does");
    let (recorded, of_siw) = (record::read(&root)?, programs(&dir.join("siw"))?);
    let is_here = |rule: &Id| of_siw.contains(rule) == (driver == Driver::Siw);
    let (expected, others): (Cases, Cases) =
        recorded.cases.into_iter().partition(|(rule, _)| is_here(rule));
    let (folder, alone) = match driver {
        Driver::Siw => ("siw", Vec::new()),
        Driver::Rxe => (".", programs(&dir.join("kernel"))?),
    };
    let rules = if driver == Driver::Siw { of_siw } else { programs(&dir)? };
    let bin = build(&dir, &[(folder, &rules), ("kernel", &alone)])?;
    let mut seen = run_in_guest(driver, &dir, &bin, &rules)?;
    for rule in alone {
        seen.insert(rule, run_alone(&bin, rule, soft_roce::NAMED[0])?);
    }
    for (rule, case) in &mut seen {
        if let Some(expected) = expected.get(rule) {
            case.rust.clone_from(&expected.rust);
            case.why.clone_from(&expected.why);
            case.before.clone_from(&expected.before);
            case.on.clone_from(&expected.on);
        }
        let what = case.last.splitn(3, ": ").last().unwrap_or("");
        let crash = if case.end == "exit 0" { String::new() } else { format!("{}: ", case.end) };
        println!("{rule} | {crash}{what} | {}", case.kind);
    }
    let here = versions()?;
    if record {
        seen.extend(others);
        return record::write(&root, &Record { versions: here, cases: seen });
    }
    let mut failures = Vec::new();
    for (rule, case) in &seen {
        if case.kind == BROKEN {
            failures.push(format!("{rule}: a broken test: {} | {}", case.end, case.last));
        }
        if case.rust.is_empty() && case.why.is_empty() {
            failures.push(format!("{rule}: there is neither a Rust form nor a reason"));
        } else if !case.rust.is_empty() && !root.join(&case.rust).is_file() {
            failures.push(format!("{rule}: there is no {}", case.rust));
        }
    }
    let (differ, is_recorded) = (differences(&expected, &seen), here == recorded.versions);
    let of = format!("{}; here it is {here}", recorded.versions);
    if !differ.is_empty() && !is_recorded {
        println!("note: C does not do what is recorded of {of}:\n{}", differ.join("\n"));
    } else {
        failures.extend(differ);
    }
    if failures.is_empty() {
        println!("{} programs ran; the record is of {of}", seen.len());
        return Ok(());
    }
    bail!("C does not do what is recorded of {of}:\n{}", failures.join("\n"))
}

/// What the programs run with.
fn versions() -> Result<Versions> {
    let only = "${Version}";
    let query = cmd!(sh::here(), "dpkg-query -W -f {only} libibverbs1");
    Ok(Versions {
        kernel: soft_roce::kernel()?.release,
        libibverbs: query.read().unwrap_or_default(),
    })
}

/// The kind of one that did not get to its rule.
const BROKEN: &str = "broken test";

fn differences(expected: &Cases, seen: &Cases) -> Vec<String> {
    let ids = expected.keys().chain(seen.keys().filter(|id| !expected.contains_key(*id)));
    let differ = ids.filter(|id| expected.get(*id) != seen.get(*id));
    let of = |case: Option<&Case>| {
        case.map_or("nothing".into(), |it| [&*it.kind, &it.end, &it.last].join(" | "))
    };
    let line =
        |id| format!("{id}: recorded: {}\n    now: {}", of(expected.get(id)), of(seen.get(id)));
    differ.map(line).collect()
}

/// `r2_6` for R2.6, the stem of its program's file.
fn stem(id: Id) -> String {
    format!("r{}_{}", id.0, id.1)
}

fn rule(stem: &str) -> Option<Id> {
    Id::parse(&stem.replacen('r', "R", 1).replacen('_', ".", 1))
}

/// The rules that have a program.
fn programs(dir: &Path) -> Result<Vec<Id>> {
    let mut rules = Vec::new();
    for entry in fs::read_dir(dir).with_context(|| format!("{}", dir.display()))? {
        let file = entry?.file_name().to_string_lossy().into_owned();
        rules.extend(file.strip_suffix(".c").and_then(rule));
    }
    rules.sort_unstable();
    Ok(rules)
}

/// Builds the programs of these rules, which are in these folders.
fn build(dir: &Path, all: &[(&str, &[Id])]) -> Result<PathBuf> {
    let bin = paths::below_target("what-c-does")?;
    let (sh, common) = (sh::at(dir), bin.join("common.o"));
    let gcc = ["-std=c11", "-O2", "-Wall", "-Wextra", "-Werror", "-o"];
    let step = Step::start("Compiling the programs");
    cmd!(sh, "gcc {gcc...} {common} -c common.c").bytes()?;
    for (folder, rule) in
        all.iter().flat_map(|(folder, rules)| rules.iter().map(move |r| (folder, r)))
    {
        let stem = stem(*rule);
        let program = bin.join(&stem);
        cmd!(sh, "gcc {gcc...} {program} {folder}/{stem}.c {common} -libverbs -lrdmacm -lpthread")
            .bytes()?;
    }
    step.done("gcc accepts every program without a warning");
    Ok(bin)
}

/// One that may end the kernel. What it said until then is in a file that is the host's.
fn run_alone(bin: &Path, rule: Id, kernel: &str) -> Result<Case> {
    let said = soft_roce::out_dir()?.join("what-c-does.txt");
    let _ = fs::remove_file(&said);
    let line = r#"exec timeout -k 1 10 "$0" >"$1""#;
    let command: [&Path; 5] =
        ["sh".as_ref(), "-c".as_ref(), line.as_ref(), &bin.join(stem(rule)), &said];
    eprintln!("\n{rule} may end the kernel of its guest, Linux {kernel}:");
    let guest = Guest { kernel: kernel.to_owned(), ..Guest::default() };
    let end = match soft_roce::run(&guest, &command) {
        Ok(code) => format!("exit {code}"),
        Err(error) => match error.downcast::<KernelCrash>() {
            Ok(KernelCrash(what)) => what.split(',').next().unwrap_or_default().to_owned(),
            Err(error) => return Err(error),
        },
    };
    let said = fs::read_to_string(&said).with_context(|| format!("{}", said.display()))?;
    let last = said.lines().last().unwrap_or_default().to_owned();
    let kind = if end.starts_with("exit") { kind(&end, &last) } else { "crash of the kernel" };
    Ok(Case { kind: kind.into(), end, last, ..Case::default() })
}

/// All of them in one boot.
fn run_in_guest(driver: Driver, dir: &Path, bin: &Path, rules: &[Id]) -> Result<Cases> {
    let results = soft_roce::out_dir()?.join("what-c-does.txt");
    let _ = fs::remove_file(&results); // a failed run must not find an old one's
    let mut command = vec!["sh".into(), dir.join("run.sh"), bin.into(), results.clone()];
    command.extend(rules.iter().map(|rule| PathBuf::from(stem(*rule))));
    let code = soft_roce::run(&Guest { driver, ..Guest::default() }, &command)?;
    ensure!(code == 0, "run.sh failed with code {code}");
    let text = fs::read_to_string(&results).with_context(|| format!("{}", results.display()))?;
    let cases = text.lines().filter_map(observed).collect::<Cases>();
    ensure!(cases.len() == rules.len(), "{} programs ran, of {}", cases.len(), rules.len());
    Ok(cases)
}

/// A line of the results.
fn observed(line: &str) -> Option<(Id, Case)> {
    let mut fields = line.splitn(3, '\t');
    let rule = rule(fields.next()?)?;
    let (end, last) = (fields.next()?, fields.next()?);
    let kind = kind(end, last);
    let (kind, end, last) = (kind.into(), end.into(), last.into());
    Some((rule, Case { kind, end, last, ..Case::default() }))
}

fn kind<'a>(end: &str, last: &'a str) -> &'a str {
    match end {
        "exit 0" => last.split(": ").nth(1).unwrap_or(BROKEN),
        "time-out" => "hang",
        end if end.starts_with("SIG") => "crash",
        _ => BROKEN,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_understood_and_a_difference_seen() {
        let lines = "r10_1\texit 0\tR10.1: wrong completion: \"it's\"\nr2_8\tSIGSEGV\tR2.8: before";
        let cases: Cases = lines.lines().filter_map(observed).collect();
        let kinds: Vec<_> = cases.values().map(|case| case.kind.as_str()).collect();
        assert_eq!(kinds, ["crash", "wrong completion"]);
        assert_eq!(differences(&cases, &cases), [""; 0]);
        let other = Cases::from([(Id(2, 8), Case::default()), (Id(1, 1), Case::default())]);
        assert_eq!(differences(&cases, &other).len(), 3);
    }
}
