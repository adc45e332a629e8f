//! `cargo xtask what-c-does`: runs C programs that break dangerous rules. Each program in
//! `tests/what_c_does` breaks one rule, is accepted by gcc without a warning, and is run on
//! Soft-RoCE with a timeout. Programs in the directory `siw` run on siw. Programs in `kernel` may
//! crash the kernel, so each of them has its own guest. The way a program ends, and its last line,
//! must match `expected.toml`, which also names the Rust counterpart. If the kernel or the library
//! differs from the record, differences are only printed.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;

use crate::progress::Step;
use crate::sh::{self, Run, cmd};
use crate::soft_roce::{self, Driver, Guest, KernelCrash};
use crate::{paths, setup};

#[derive(clap::Args)]
pub struct Args {
    /// Run the programs for this device.
    #[arg(long, value_enum, default_value_t)]
    pub driver: Driver,
    /// Run only the programs that may crash the kernel, on every other kernel that `expected.toml`
    /// names.
    #[arg(long)]
    pub kernels: bool,
}

/// `expected.toml`.
#[derive(Deserialize)]
struct Recorded {
    versions: Versions,
    #[serde(flatten)]
    cases: Cases,
}

/// The versions that the programs ran with.
#[derive(Debug, PartialEq, Deserialize)]
struct Versions {
    /// The guest's kernel, as printed by `uname -r`.
    kernel: String,
    /// The version of the package libibverbs1.
    libibverbs: String,
}

/// The programs by rule: `R2.6`.
type Cases = BTreeMap<String, Case>;

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Case {
    /// Crash, hang, silent loss and so on.
    kind: String,
    /// How the program ended.
    end: String,
    /// Its last line.
    last: String,
    /// The kind on other kernels, for programs that may crash the kernel.
    on: BTreeMap<String, String>,
    /// The kind on earlier kernels or libraries, for readers only.
    #[serde(rename = "before")]
    _before: String,
    /// The Rust counterpart, a file of the project.
    rust: String,
    /// The reason if there is none that fails to compile.
    why: String,
}

/// The kind of a program that did not reach its rule.
const BROKEN: &str = "broken test";

fn recorded(dir: &Path) -> Result<Recorded> {
    let text = fs::read_to_string(dir.join("expected.toml")).context("expected.toml")?;
    toml::from_str(&text).context("expected.toml")
}

/// Runs the programs that may crash the kernel on the other kernels that have recorded kinds.
pub fn on_other_kernels() -> Result<()> {
    setup::ensure(&[setup::Group::Build, setup::Group::Guest])?;
    let dir = paths::workspace().join("tests/what_c_does");
    let alone = programs(&dir.join("kernel"));
    let bin = build(&dir, &[("kernel", &alone)])?;
    let cases = recorded(&dir)?.cases;
    let mut differ = Vec::new();
    for kernel in &soft_roce::NAMED[1..] {
        for rule in &alone {
            let seen = run_alone(&bin, rule, kernel)?;
            println!("{rule} | Linux {kernel} | {}", seen.shown());
            let expected = cases.get(rule).and_then(|case| case.on.get(*kernel));
            if expected != Some(&seen.kind) {
                differ.push(format!("{rule} on Linux {kernel}: {expected:?} is recorded"));
            }
        }
    }
    ensure!(
        differ.is_empty(),
        "the results of C programs differ from the record:\n{}",
        differ.join("\n")
    );
    Ok(())
}

pub fn run(driver: Driver) -> Result<()> {
    setup::ensure(&[setup::Group::Build, setup::Group::Guest])?;
    let dir = paths::workspace().join("tests/what_c_does");
    let Recorded { versions, cases } = recorded(&dir)?;
    let (folder, alone) = match driver {
        Driver::Siw => ("siw", Vec::new()),
        Driver::Rxe => (".", programs(&dir.join("kernel"))),
    };
    let rules = programs(&dir.join(folder));
    let bin = build(&dir, &[(folder, &rules), ("kernel", &alone)])?;
    let mut seen = run_in_guest(driver, &dir, &bin, &rules)?;
    for rule in alone {
        let case = run_alone(&bin, &rule, soft_roce::NAMED[0])?;
        seen.insert(rule, case);
    }
    let of_siw = programs(&dir.join("siw"));
    let is_here = |rule: &str| of_siw.iter().any(|it| it == rule) == (driver == Driver::Siw);
    let expected: Cases = cases.into_iter().filter(|(rule, _)| is_here(rule)).collect();
    let mut differ = Vec::new();
    for rule in expected.keys().chain(seen.keys()).collect::<BTreeSet<_>>() {
        let of = |cases: &Cases| cases.get(rule).cloned().unwrap_or_default();
        let (expected, now) = (of(&expected), of(&seen));
        println!("{rule} | {}", now.shown());
        if expected.shown() != now.shown() {
            differ.push(format!(
                "{rule}: recorded: {}\n    now: {}",
                expected.shown(),
                now.shown()
            ));
        }
    }
    let here = here()?;
    let of = format!("the record is for {versions:?}; here are {here:?}");
    let differ = differ.join("\n");
    ensure!(
        differ.is_empty() || here != versions,
        "the results of C programs differ from the record; {of}:\n{differ}"
    );
    println!("{} programs ran; {of}\n{differ}", seen.len());
    Ok(())
}

/// The versions that the programs run with.
fn here() -> Result<Versions> {
    let only = "${Version}";
    let query = cmd!(sh::here(), "dpkg-query -W -f {only} libibverbs1");
    Ok(Versions {
        kernel: soft_roce::kernel()?.release,
        libibverbs: query.read().unwrap_or_default(),
    })
}

/// `r2_6` for R2.6, the stem of its program's file.
fn stem(rule: &str) -> String {
    rule.to_lowercase().replace('.', "_")
}

fn rule(stem: &str) -> String {
    stem.to_uppercase().replace('_', ".")
}

/// The rules with a program in a directory.
fn programs(dir: &Path) -> Vec<String> {
    let stem = |file: String| Some(file.strip_suffix(".c")?.to_owned());
    let stems = paths::names(dir).filter_map(stem).filter(|stem| stem.starts_with('r'));
    let mut rules: Vec<String> = stems.map(|stem| rule(&stem)).collect();
    rules.sort_unstable();
    rules
}

/// Builds the programs for these rules in these folders.
fn build(dir: &Path, all: &[(&str, &[String])]) -> Result<PathBuf> {
    let bin = paths::below_target("what-c-does")?;
    let (sh, common) = (sh::at(dir), bin.join("common.o"));
    let gcc = ["-std=c11", "-O2", "-Wall", "-Wextra", "-Werror", "-o"];
    let step = Step::start("Compiling the programs");
    cmd!(sh, "gcc {gcc...} {common} -c common.c").bytes()?;
    for (folder, rules) in all {
        for stem in rules.iter().map(|rule| stem(rule)) {
            let (program, libraries) = (bin.join(&stem), ["-libverbs", "-lrdmacm", "-lpthread"]);
            cmd!(sh, "gcc {gcc...} {program} {folder}/{stem}.c {common} {libraries...}").bytes()?;
        }
    }
    step.done("gcc accepts every program without a warning");
    Ok(bin)
}

/// Runs a program that may crash the kernel. Its output until then is in a file on the host.
fn run_alone(bin: &Path, rule: &str, kernel: &str) -> Result<Case> {
    let said = soft_roce::out_dir()?.join("what-c-does.txt");
    let _ = fs::remove_file(&said);
    let line = r#"exec timeout -k 1 10 "$0" >"$1""#;
    let command: [&Path; 5] =
        ["sh".as_ref(), "-c".as_ref(), line.as_ref(), &bin.join(stem(rule)), &said];
    eprintln!("\n{rule} may crash the kernel of its guest, Linux {kernel}:");
    let guest = Guest { kernel: kernel.to_owned(), ..Guest::default() };
    let end = match soft_roce::run(&guest, &command) {
        Ok(code) => format!("exit {code}"),
        Err(error) => match error.downcast::<KernelCrash>() {
            Ok(KernelCrash(what)) => what.split(',').next().unwrap_or_default().to_owned(),
            Err(error) => return Err(error),
        },
    };
    let said = fs::read_to_string(&said).with_context(|| format!("{}", said.display()))?;
    let mut case = Case::of(&end, said.lines().last().unwrap_or_default());
    if !end.starts_with("exit") {
        case.kind = "crash of the kernel".to_owned();
    }
    Ok(case)
}

/// Runs all of them in one boot.
fn run_in_guest(driver: Driver, dir: &Path, bin: &Path, rules: &[String]) -> Result<Cases> {
    let results = soft_roce::out_dir()?.join("what-c-does.txt");
    let _ = fs::remove_file(&results); // a failed run must not find an old one's
    let mut command = vec!["sh".into(), dir.join("run.sh"), bin.into(), results.clone()];
    command.extend(rules.iter().map(|rule| PathBuf::from(stem(rule))));
    match soft_roce::run(&Guest { driver, ..Guest::default() }, &command)? {
        0 => {}
        code => bail!("run.sh failed with code {code}"),
    }
    let text = fs::read_to_string(&results).with_context(|| format!("{}", results.display()))?;
    let cases: Cases = text.lines().filter_map(observed).collect();
    ensure!(cases.len() == rules.len(), "{} programs ran, of {}", cases.len(), rules.len());
    Ok(cases)
}

/// A line of the results.
fn observed(line: &str) -> Option<(String, Case)> {
    let mut fields = line.splitn(3, '\t');
    Some((rule(fields.next()?), Case::of(fields.next()?, fields.next()?)))
}

impl Case {
    /// A program that ended in this way, with this last line.
    fn of(end: &str, last: &str) -> Self {
        let kind = match end {
            "exit 0" => last.split(": ").nth(1).unwrap_or(BROKEN),
            "time-out" => "hang",
            end if end.starts_with("SIG") => "crash",
            _ => BROKEN,
        };
        let [kind, end, last] = [kind, end, last].map(str::to_owned);
        Case { kind, end, last, ..Case::default() }
    }

    fn shown(&self) -> String {
        [&*self.kind, &self.end, &self.last].join(" | ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_understood() {
        let lines = "r10_1\texit 0\tR10.1: wrong completion: \"it's\"\nr2_8\tSIGSEGV\tR2.8: before";
        let cases: Cases = lines.lines().filter_map(observed).collect();
        assert_eq!(cases["R2.8"].kind, "crash");
        assert_eq!(
            cases["R10.1"].shown(),
            "wrong completion | exit 0 | R10.1: wrong completion: \"it's\""
        );
    }

    #[test]
    fn the_record_is_understood() {
        let root = paths::workspace();
        let cases = recorded(&root.join("tests/what_c_does")).unwrap().cases;
        assert!(cases.len() > 40, "{}", cases.len());
        for (rule, Case { kind, rust, why, .. }) in cases {
            assert_ne!(kind, BROKEN, "{rule}");
            assert!(
                !rust.is_empty() || !why.is_empty(),
                "{rule} has no Rust counterpart and no reason"
            );
            assert!(root.join(&rust).exists(), "{rule}: there is no {rust}");
        }
    }
}
