//! rustc is the filter: a program that it rejects is left out and counted.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::draw::Program;
use crate::cargo::{self, Messages, rendered};
use crate::paths;

/// The package that the programs are compiled in. It uses the same features as the suites, so that
/// nothing is built twice.
pub const PACKAGE: &str = "proverbs-programs";
const FEATURES: &str = "proverbs/loopback,proverbs/tokio,proverbs/serde";

/// Programs that compile, in one executable.
pub struct Compiled {
    pub programs: Vec<Program>,
    pub executable: PathBuf,
    pub source: PathBuf,
}

/// The line numbers of a program.
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

/// Compiles them, without those that rustc rejects.
pub fn compile(name: &str, mut programs: Vec<Program>) -> Result<Compiled> {
    let source = paths::below_target("programs")?.join(format!("{name}.rs"));
    loop {
        let spans = write(&source, &programs)?;
        let build = ["build", "--quiet", "-p", PACKAGE, "--features", FEATURES];
        let build = cargo::cargo(&build)?.env("PROVERBS_PROGRAMS", &source);
        let (is_built, Messages { executables, errors }) = cargo::try_build(build)?;
        if is_built {
            let built = cargo::named(&executables, PACKAGE)?;
            // The next build replaces this one.
            let executable = source.with_extension("exe");
            fs::copy(&built, &executable).context("cannot copy the executable")?;
            return Ok(Compiled { programs, executable, source });
        }
        let mut refused = BTreeSet::new();
        for error in &errors {
            let Some(line) = line(error, &source) else {
                bail!(
                    "the programs do not compile, and the error is in none of them:\n{}",
                    rendered(error)
                );
            };
            let Some(span) = spans.iter().find(|span| span.lines.contains(&line)) else {
                bail!("the programs do not compile:\n{}", rendered(error));
            };
            refused.insert(span.number);
        }
        programs.retain(|program| !refused.contains(&program.number));
    }
}

/// The source line of an error, also through macros.
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
