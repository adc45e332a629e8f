//! `cargo xtask two-hosts`: scenarios on two Soft-RoCE hosts, with a lossy fabric and a dying peer.

use std::ffi::OsString;
use std::fs;

use anyhow::{Context, Result, bail};

use crate::soft_roce::{self, Guest};
use crate::{cargo, paths};

/// The scenarios. Each runs on both hosts at the same time.
const SCENARIOS: [&str; 6] =
    ["rc-loss", "uc-loss", "ud-loss", "peer-killed", "link-down", "device-removed"];

#[derive(clap::Args)]
pub struct Args {
    /// The scenarios to run, in this order [default: all]
    #[arg(value_parser = SCENARIOS)]
    scenarios: Vec<String>,
}

/// Runs the scenarios and prints the results of both ends. Returns an error if one failed.
pub fn main(args: &Args) -> Result<()> {
    let scenarios: Vec<&str> = match args.scenarios.as_slice() {
        [] => SCENARIOS.to_vec(),
        some => some.iter().map(String::as_str).collect(),
    };
    // The same as for `cargo xtask test`, to share its build. The time is spent in the fabric.
    const BUILD: [&str; 6] =
        ["test", "--no-run", "--features", crate::test::FEATURES, "--test", "two_hosts"];
    let built = cargo::executables("Building the hosts' program", &BUILD)?;
    let program = cargo::named(&built, "two_hosts")?;
    let script = paths::workspace().join("tests/two_hosts/host.sh");
    let out = soft_roce::out_dir()?;
    let results = [1, 2].map(|host| out.join(format!("two-hosts.{host}")));
    for file in &results {
        fs::write(file, "").with_context(|| format!("cannot write {}", file.display()))?;
    }
    let command = |host: usize| {
        let host_and_file = [host.to_string().into(), results[host - 1].clone().into()];
        let words = ["sh".into(), script.clone().into(), program.clone().into()];
        let scenarios = scenarios.iter().map(OsString::from);
        words.into_iter().chain(host_and_file).chain(scenarios).collect::<Vec<OsString>>()
    };
    let guest = Guest { memory_mb: 1024, ..Guest::default() };
    let (one, two) = (command(1), command(2));
    let codes = soft_roce::run_pair(&guest, [&one, &two]);
    for file in &results {
        print!("{}", fs::read_to_string(file).unwrap_or_default());
    }
    match codes? {
        [0, 0] => Ok(()),
        codes => bail!("a scenario failed (exit codes {codes:?})"),
    }
}
