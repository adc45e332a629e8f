//! rustc is the filter: a program that it refuses is left out, and counted.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::draw::Program;
use crate::{cargo, paths};

/// The package that the programs are compiled into, with what the suites are built with, so that
/// nothing is built twice.
pub const PACKAGE: &str = "proverbs-programs";
const FEATURES: &str = "proverbs/tokio,proverbs/serde";

/// Programs that compile, in one executable.
pub struct Compiled {
    pub programs: Vec<Program>,
    pub executable: PathBuf,
    pub source: PathBuf,
}

/// Where a program's lines are.
struct Span {
    number: u64,
    lines: std::ops::Range<u64>,
}

fn write(path: &Path, programs: &[Program]) -> Result<Vec<Span>> {
    let mut text = "// Written by `cargo xtask programs`.\n".to_owned();
    let mut spans = Vec::new();
    for program in programs {
        let from = text.lines().count() as u64 + 1;
        text.push_str(&program.text());
        spans.push(Span { number: program.number, lines: from..text.lines().count() as u64 + 1 });
    }
    text.push_str("pub const PROGRAMS: &[Program] = &[\n");
    programs.iter().for_each(|program| text.push_str(&program.entry()));
    text.push_str("];\n");
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(spans)
}

/// Compiles them, without those that rustc refuses.
pub fn compile(name: &str, mut programs: Vec<Program>) -> Result<Compiled> {
    let source = paths::below_target("programs")?.join(format!("{name}.rs"));
    loop {
        let spans = write(&source, &programs)?;
        let (executable, errors) = build(&source)?;
        if let Some(built) = executable {
            // Another build takes the place of this one.
            let executable = source.with_extension("exe");
            fs::copy(&built, &executable).context("cannot copy the executable")?;
            return Ok(Compiled { programs, executable, source });
        }
        let mut refused = BTreeSet::new();
        for error in &errors {
            let Some(line) = line(error, &source) else {
                bail!("the programs do not compile, and it is none of them:\n{}", rendered(error));
            };
            let Some(span) = spans.iter().find(|span| span.lines.contains(&line)) else {
                bail!("the programs do not compile:\n{}", rendered(error));
            };
            if refused.insert(span.number) && std::env::var_os("PROVERBS_REFUSALS").is_some() {
                eprintln!("{}", rendered(error));
            }
        }
        if refused.is_empty() {
            bail!("the programs do not compile, and cargo does not say why");
        }
        programs.retain(|program| !refused.contains(&program.number));
    }
}

fn rendered(message: &Value) -> String {
    message["rendered"].as_str().unwrap_or("(no text)").to_owned()
}

/// Builds; the executable, or what is wrong.
fn build(source: &Path) -> Result<(Option<PathBuf>, Vec<Value>)> {
    let args = ["build", "--quiet", "-p", PACKAGE, "--features", FEATURES];
    let cmd = cargo::cargo(&args)?.arg("--message-format=json").env("PROVERBS_PROGRAMS", source);
    let output = cmd.ignore_status().output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let (mut executable, mut errors) = (None, Vec::new());
    for line in text.lines() {
        let message: Value = serde_json::from_str(line).context("cargo's messages")?;
        if let Some(path) = message["executable"].as_str() {
            executable = Some(PathBuf::from(path));
        }
        let told = &message["message"];
        if told["level"] == "error" && told["spans"].as_array().is_some_and(|all| !all.is_empty()) {
            errors.push(told.clone());
        }
    }
    if !output.status.success() {
        executable = None;
        if errors.is_empty() {
            bail!("cargo build failed:\n{}", String::from_utf8_lossy(&output.stderr));
        }
    }
    Ok((executable, errors))
}

/// The line of the source that an error is about, through macros.
fn line(message: &Value, source: &Path) -> Option<u64> {
    let spans = message["spans"].as_array()?;
    let primary = spans.iter().filter(|span| span["is_primary"] == true);
    primary.chain(spans.iter()).find_map(|span| {
        let mut span = span;
        loop {
            let file = span["file_name"].as_str()?;
            if Path::new(file).file_name() == source.file_name() {
                return span["line_start"].as_u64();
            }
            span = &span["expansion"]["span"];
        }
    })
}
