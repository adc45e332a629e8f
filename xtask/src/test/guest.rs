//! On Soft-RoCE or a real device: the suites, every example against its C namesake, and what C does.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::setup::{self, Group};
use crate::sh::Cmd;
use crate::soft_roce::{self, Guest};
use crate::{cargo, paths, what_c_does};

/// One boot for everything that needs a real device.
pub fn run(device: Option<&str>, features: &str) -> Result<()> {
    setup::ensure(&[Group::Guest])?;
    let tests = cargo::executables(
        "Building the conformance and attack suites, and the tests of rdma_cm",
        &[
            &["test", "--no-run", "--features", features][..],
            &["--test", "conformance", "--test", "attack"],
            &["--test", "imm_interop", "--test", "cm"],
        ]
        .concat(),
    )?;
    let examples = cargo::executables(
        "Building the examples",
        &["build", "--release", "--examples", "--features", features],
    )?;
    let conformance = named(&tests, "conformance")?;
    let attack = named(&tests, "attack")?;
    let imm = named(&tests, "imm_interop")?;
    let cm = named(&tests, "cm")?;
    let examples = named(&examples, "rc_pingpong")?;
    let examples = examples.parent().context("the examples are in a directory")?;
    let peer = imm_peer()?;
    let script = format!(
        "set -e\n{conformance}\n{attack}\nPROVERBS_IMM_PEER={peer} {imm} --ignored\n{cm} --ignored --skip leaks::\n{cm} --ignored leaks::\nsh {pingpong} {examples}\nsh {cm_programs} {examples}\n",
        conformance = conformance.display(),
        attack = attack.display(),
        peer = peer.display(),
        imm = imm.display(),
        cm = cm.display(),
        pingpong = paths::workspace().join("tests/interop/pingpong.sh").display(),
        cm_programs = paths::workspace().join("tests/interop/cm.sh").display(),
        examples = examples.display(),
    );
    // This takes the link down, which is for a guest only, and comes last.
    let watch = paths::workspace().join("tests/interop/asyncwatch.sh");
    let watch = format!("sh {} {}\n", watch.display(), examples.display());
    let script = if device.is_none() { script + &watch } else { script };
    let command = ["sh", "-c", &script];
    let code = match device {
        Some(device) => soft_roce::on_device(device, &command)?,
        None => {
            let guest = Guest { timeout: Duration::from_secs(2400), ..Guest::default() };
            soft_roce::run(&guest, &command)?
        }
    };
    if code != 0 {
        bail!("the tests on a real device failed with code {code}");
    }
    // What C does is recorded for Soft-RoCE only.
    if device.is_none() { what_c_does::check() } else { Ok(()) }
}

/// Builds the C peer that looks at the byte order of immediates.
fn imm_peer() -> Result<PathBuf> {
    let peer = paths::below_target("interop")?.join("imm_peer");
    Cmd::new("gcc")
        .args(["-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-o"])
        .arg(&peer)
        .arg(paths::workspace().join("tests/interop/imm/imm_peer.c"))
        .arg("-libverbs")
        .run("Building the C peer for immediates")?;
    Ok(peer)
}

fn named(found: &[(String, PathBuf)], name: &str) -> Result<PathBuf> {
    let found = found.iter().find(|(target, _)| target == name);
    Ok(found.with_context(|| format!("cargo built no `{name}`"))?.1.clone())
}
