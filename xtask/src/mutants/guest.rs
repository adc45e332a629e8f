//! Mutants of what nothing native reaches: the same build, judged where there is a device.
//!
//! This program runs in the guest too: there it gets the executables and the numbers of the mutants from a file,
//! notes which test reaches which, judges them one after the other, and leaves the verdicts in the directory that
//! guest and host share.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, bail};
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

const VERDICTS: &str = "mutants.json";

/// Boots a guest and has it judge the mutants.
pub fn judge<'m>(
    executables: &[(String, PathBuf)],
    mutants: &'m [Mutant],
) -> Result<Vec<(&'m Mutant, Verdict)>> {
    let ids = mutants.iter().map(|mutant| mutant.id).collect();
    let job = Job { executables: executables.to_vec(), mutants: ids };
    let path = paths::below_target("mutants")?.join("guest.json");
    fs::write(&path, serde_json::to_string(&job)?)?;
    let verdicts = soft_roce::out_dir()?.join(VERDICTS);
    let _ = fs::remove_file(&verdicts);
    let program = std::env::current_exe()?;
    let command = [program.as_os_str(), "mutants".as_ref(), "--judge".as_ref(), path.as_os_str()];
    let guest = Guest { timeout: Duration::from_secs(7200), ..Guest::default() };
    let code = soft_roce::run(&guest, &command)?;
    if code != 0 {
        bail!("the mutants were not judged in the guest: code {code}");
    }
    let verdicts: BTreeMap<u32, Verdict> = serde_json::from_str(&fs::read_to_string(verdicts)?)?;
    let of = |mutant: &Mutant| verdicts.get(&mutant.id).cloned().unwrap_or(Verdict::NotReached);
    Ok(mutants.iter().map(|mutant| (mutant, of(mutant))).collect())
}

/// In the guest.
pub fn main(job: &Path) -> Outcome {
    let job: Job = serde_json::from_str(&fs::read_to_string(job)?)?;
    let suites = Suites::trace(Place::Guest, &job.executables)?;
    let mut verdicts = BTreeMap::new();
    for id in job.mutants {
        let verdict = super::verdict(&suites, id, false)?;
        println!("mutant {id}: {verdict:?}");
        verdicts.insert(id, verdict);
        // As far as it came, should the guest not survive one.
        fs::write(soft_roce::out_dir()?.join(VERDICTS), serde_json::to_string(&verdicts)?)?;
    }
    Ok(ExitCode::SUCCESS)
}
