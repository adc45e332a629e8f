//! The command between two guests with Soft-RoCE: few exchanges and a part of the suite, since all
//! of it is emulated.

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;
use std::{env, fs};

use anyhow::{Context, Result, ensure};

use super::programs::Programs;
use crate::soft_roce::{self, Guest};
use crate::{paths, setup};

/// The part of the suite.
const TESTS: &str = "connected::";

pub fn run(programs: Option<&Path>) -> Result<()> {
    setup::ensure(&[setup::Group::Build, setup::Group::Guest])?;
    let dir = paths::below_target("hardware/programs")?;
    Programs::find(programs)?.gather(&dir)?;
    let out = paths::directory(soft_roce::out_dir()?.join("hardware"))?;
    for file in ["report.md", "report.svg"] {
        // What is left of the last time is no report of this one.
        let _ = fs::remove_file(out.join(file));
    }
    let xtask = env::current_exe().context("where this program is")?;
    let command = |words: &[&str]| {
        let mut all: Vec<OsString> = vec![xtask.clone().into(), "hardware".into()];
        all.extend(["--device".into(), "rxe0".into(), "--programs".into(), dir.clone().into()]);
        all.extend(words.iter().map(OsString::from));
        all
    };
    let server = command(&[]);
    let out_dir = out.display().to_string();
    let mut client = command(&["--peer", "10.77.0.1", "--pairs", "2", "-n", "20"]);
    client.extend(["--tests", TESTS, "--out", &out_dir].map(OsString::from));
    let guest = Guest { timeout: Duration::from_secs(1800), memory_mb: 1024, ..Guest::default() };
    let codes = soft_roce::run_pair(&guest, [&server, &client])?;
    ensure!(codes == [0, 0], "the command failed (exit codes {codes:?})");
    let page = fs::read_to_string(out.join("report.md")).context("there is no report")?;
    let picture = fs::read_to_string(out.join("report.svg")).context("there is no picture")?;
    println!("{page}");
    ensure!(page.contains("| this machine |") && page.contains("hca_id"), "the report has parts");
    ensure!(picture.contains("</svg>"), "the picture is whole");
    println!("hardware: two guests, and their report");
    Ok(())
}
