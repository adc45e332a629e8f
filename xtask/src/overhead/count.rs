//! Instructions of each form, without those of the stub.

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::Path;

use anyhow::{Context, Result};

use super::build::Twins;
use crate::callgrind::{self, Counted};
use crate::sh::{self, Run, cmd};

/// Counts all forms, by `family/row/form`, of the rows that begin with one of `only`, separated by
/// commas. A form that posts something else than its twins is an error.
pub fn run(twins: &Twins, forms: &Path, only: &str) -> Result<Counted> {
    let only = OsString::from(format!("--only={only}"));
    let args: Vec<_> = [only].into_iter().chain(arguments(twins)).collect();
    callgrind::run("C and Rust", forms, &args, &twins.stub.env(), twins.stub.directory())
}

/// The floor of each row, by `family/row`: the same forms, run instruction by instruction.
pub fn floors(twins: &Twins, forms: &Path, only: &str) -> Result<HashMap<String, f64>> {
    let args = arguments(twins);
    let floors = cmd!(sh::here(), "{forms} --floor --only={only} {args...}");
    let text = floors.envs(twins.stub.env()).text()?;
    let lines = text.lines().filter_map(|line| line.strip_prefix("floor "));
    let floor = |line: &str| {
        let (id, count) = line.rsplit_once(' ').context("a floor has a row and a number")?;
        Ok((id.to_owned(), count.parse().with_context(|| format!("`{line}`"))?))
    };
    lines.map(floor).collect()
}

/// The stub, and the twins by their names.
fn arguments(twins: &Twins) -> Vec<OsString> {
    let twin = |(name, file): &(String, _)| {
        let file: &std::path::PathBuf = file;
        format!("{name}={}", file.display()).into()
    };
    [twins.stub.libibverbs.clone().into()]
        .into_iter()
        .chain(twins.objects.iter().map(twin))
        .collect()
}
