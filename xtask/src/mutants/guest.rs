//! Mutants that no loopback device shows: the same build, judged where there is a kernel's device.
//!
//! This program runs in the guest too: there it gets the executables and the numbers of the mutants
//! from a file, notes which test reaches which, judges them one after the other, and leaves the
//! verdicts in the directory that guest and host share.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, bail, ensure};
use serde::{Deserialize, Serialize};

use super::report::Verdict;
use super::splice::Mutant;
use super::suite::{Place, Suites};
use crate::soft_roce::{self, Guest};
use crate::{Outcome, paths};

/// What the guest is to do.
#[derive(Deserialize, Serialize)]
struct Job {
    executables: Vec<(String, PathBuf)>,
    mutants: Vec<u32>,
}

type Verdicts = BTreeMap<u32, Verdict>;

/// Where the guest leaves its verdicts.
fn page() -> Result<PathBuf> {
    Ok(soft_roce::out_dir()?.join("mutants.json"))
}

/// Boots a guest and has it judge the mutants. One that the guest does not survive is noticed; then
/// another guest judges the rest.
pub fn judge<'m>(
    executables: &[(String, PathBuf)],
    mutants: &[&'m Mutant],
) -> Result<Vec<(&'m Mutant, Verdict)>> {
    let mut verdicts = Verdicts::new();
    loop {
        let left = mutants.iter().map(|mutant| mutant.id).filter(|id| !verdicts.contains_key(id));
        let job = Job { executables: executables.to_vec(), mutants: left.collect() };
        if job.mutants.is_empty() {
            let of = |mutant: &&'m Mutant| Some((*mutant, verdicts.remove(&mutant.id)?));
            return Ok(mutants.iter().filter_map(of).collect());
        }
        let new = in_a_guest(&job)?;
        ensure!(!new.is_empty(), "no mutant was judged in the guest");
        verdicts.extend(new);
    }
}

/// What one guest says, as far as it came.
fn in_a_guest(job: &Job) -> Result<Verdicts> {
    let path = paths::below_target("mutants")?.join("guest.json");
    fs::write(&path, serde_json::to_string(job)?)?;
    fs::write(page()?, serde_json::to_string(&Verdicts::new())?)?;
    let program = std::env::current_exe()?;
    let command = [program.as_os_str(), "mutants".as_ref(), "--judge".as_ref(), path.as_os_str()];
    let guest = Guest { timeout: Duration::from_secs(7200), ..Guest::default() };
    match soft_roce::run(&guest, &command) {
        Ok(0) => {}
        Ok(code) => bail!("the mutants were not judged in the guest: code {code}"),
        Err(error) => eprintln!("{error:#}"),
    }
    Ok(serde_json::from_str(&fs::read_to_string(page()?)?)?)
}

/// In the guest.
pub fn main(job: &Path) -> Outcome {
    let job: Job = serde_json::from_str(&fs::read_to_string(job)?)?;
    let suites = Suites::trace(Place::Guest, &job.executables)?;
    let mut verdicts = Verdicts::new();
    let leave = |verdicts: &Verdicts| -> Result<()> {
        Ok(fs::write(page()?, serde_json::to_string(verdicts)?)?)
    };
    for id in job.mutants {
        // Until it is known better.
        verdicts.insert(id, Verdict::Noticed("the guest, which does not survive it".to_owned()));
        leave(&verdicts)?;
        let verdict = super::verdict(&suites, id, false)?;
        println!("mutant {id}: {verdict:?}");
        verdicts.insert(id, verdict);
        leave(&verdicts)?;
    }
    Ok(ExitCode::SUCCESS)
}
