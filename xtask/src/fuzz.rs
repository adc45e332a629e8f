//! `cargo xtask fuzz`: what parses bytes from a peer, against arbitrary bytes (`fuzz/`).

use std::process::ExitCode;

use anyhow::bail;

use crate::{Outcome, cargo, paths, setup};

#[derive(clap::Args)]
pub struct Args {
    /// One target only; without, each of them.
    target: Option<String>,
    /// How long to fuzz each target, seconds.
    #[arg(long, default_value_t = 60)]
    seconds: u32,
}

/// The files of `fuzz/fuzz_targets`.
const TARGETS: [&str; 4] = ["endpoint", "pingpong_record", "rping_message", "remote_slice"];

pub fn main(args: Args) -> Outcome {
    setup::ensure(&[setup::Group::Build, setup::Group::Fuzz])?;
    setup::nightly()?;
    setup::cargo_tool("fuzz")?;
    let time = format!("-max_total_time={}", args.seconds);
    let targets = match &args.target {
        Some(target) => vec![target.as_str()],
        None => TARGETS.to_vec(),
    };
    for target in targets {
        let fuzz = ["+nightly", "fuzz", "run", target, "--", &time, "-max_len=4096"];
        let code = cargo::cargo(&fuzz)?
            .current_dir(paths::workspace().join("fuzz"))
            .without("RUSTUP_TOOLCHAIN")
            .without("CARGO")
            .stream()?;
        if code != 0 {
            bail!("fuzzing `{target}` ended with code {code}; what did it is in fuzz/artifacts");
        }
        println!("fuzz: {target} is clean after {} s", args.seconds);
    }
    Ok(ExitCode::SUCCESS)
}
