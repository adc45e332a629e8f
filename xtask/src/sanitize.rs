//! `cargo xtask sanitize`: the suites under AddressSanitizer, ThreadSanitizer or memcheck, and the examples under memcheck.

use std::process::ExitCode;

use anyhow::{Context, Result, bail};

use crate::setup::{self, Group};
use crate::sh::Cmd;
use crate::test::FEATURES;
use crate::{Outcome, cargo};

#[derive(clap::Args)]
pub struct Args {
    /// What to look with.
    tool: Tool,
    /// Only tests whose names contain this.
    filter: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Tool {
    /// AddressSanitizer: memory that is used when it should not be; and LeakSanitizer on what forgets nothing.
    Address,
    /// ThreadSanitizer: races.
    Thread,
    /// valgrind's memcheck on the suites and the examples: also memory that was never written.
    Memcheck,
}

/// The standard library is built anew with the sanitizer, so that nothing in it is taken for a race.
const TARGET: &str = "x86_64-unknown-linux-gnu";

pub fn main(args: Args) -> Outcome {
    setup::ensure(&[Group::Build])?;
    let filter = args.filter.as_deref();
    match args.tool {
        Tool::Address => {
            sanitize(
                "address",
                &["conformance", "attack"],
                filter,
                &[],
                "detect_leaks=0:allocator_may_return_null=1",
            )?;
            // What is forgotten leaks, and so does what a second panic at once would have dropped.
            let skip: Vec<&str> = FORGETTING.iter().flat_map(|name| ["--skip", *name]).collect();
            sanitize(
                "address",
                &["attack"],
                filter,
                &skip,
                "detect_leaks=1:allocator_may_return_null=1",
            )?;
        }
        Tool::Thread => sanitize("thread", &["conformance", "attack"], filter, &[], "")?,
        Tool::Memcheck => memcheck()?,
    }
    Ok(ExitCode::SUCCESS)
}

fn sanitize(
    sanitizer: &str,
    suites: &[&str],
    filter: Option<&str>,
    skip: &[&str],
    options: &str,
) -> Result<()> {
    setup::nightly()?;
    // One directory for all: what runs while building (macros, build scripts) is the same for each.
    let dir = ["--target-dir", "target/sanitize"];
    let mut args = vec!["+nightly", "test", "-Zbuild-std", "--target", TARGET];
    args.extend(dir);
    args.extend(suites.iter().flat_map(|suite| ["--test", *suite]));
    args.extend(filter);
    args.push("--");
    args.extend(skip);
    let code = cargo::cargo(&args)?
        .env("RUSTFLAGS", format!("-Zsanitizer={sanitizer}"))
        .env("ASAN_OPTIONS", options)
        // What is absurdly large is refused, as the allocator does.
        .env("TSAN_OPTIONS", "allocator_may_return_null=1")
        // With `cargo xtask`, cargo names its own toolchain to us; sanitizers need the other.
        .without("RUSTUP_TOOLCHAIN")
        .without("CARGO")
        .hint("rustup component add --toolchain nightly rust-src")
        .stream()?;
    match code {
        0 => Ok(()),
        code => bail!("the {sanitizer} sanitizer found something, or did not run: code {code}"),
    }
}

/// The suites, and the examples on the loopback device; a few rounds each, as valgrind is slow.
fn memcheck() -> Result<()> {
    const PINGPONG: &[&str] = &["-d", "loopback", "-n", "20", "-c"];
    const EXAMPLES: [(&str, &[&str]); 6] = [
        ("first_steps", &[]),
        ("faults", &[]),
        ("rc_pingpong", PINGPONG),
        ("uc_pingpong", PINGPONG),
        ("ud_pingpong", PINGPONG),
        ("srq_pingpong", PINGPONG),
    ];
    memcheck_suites()?;
    // As for `cargo xtask test`, whose builds these are.
    let build = ["build", "--release", "--examples", "--features", FEATURES];
    let built = cargo::executables("Building the examples", &build)?;
    for (name, args) in EXAMPLES {
        valgrind(&built, name, args)?;
    }
    Ok(())
}

/// The conformance and attack suites under memcheck, and no leak in what forgets nothing.
fn memcheck_suites() -> Result<()> {
    setup::ensure(&[Group::Build, Group::Valgrind])?;
    let build = ["test", "--no-run", "--features", FEATURES];
    let suites = ["--test", "conformance", "--test", "attack"];
    let built = cargo::executables("Building the suites", &[&build[..], &suites].concat())?;
    valgrind(&built, "conformance", &[])?;
    valgrind(&built, "attack", &[])?;
    let skip: Vec<&str> = FORGETTING.iter().flat_map(|name| ["--skip", *name]).collect();
    valgrind(&built, "attack", &[&skip[..], &[LEAKS]].concat())
}

/// What forgets, ends its process, or drops while it panics, and so leaks.
pub const FORGETTING: [&str; 3] = ["forget::", "exit::", "contexts::contexts_that_panic"];

/// For `valgrind`, in place of an argument: look for leaks too.
const LEAKS: &str = "--leaks";

fn valgrind(built: &[(String, std::path::PathBuf)], name: &str, args: &[&str]) -> Result<()> {
    let (_, path) =
        built.iter().find(|(target, _)| target == name).with_context(|| format!("no `{name}`"))?;
    let mut cmd = Cmd::new("valgrind").args(["--quiet", "--error-exitcode=99"]);
    let leaks = args.contains(&LEAKS);
    if leaks {
        let kinds = ["--show-leak-kinds=definite", "--errors-for-leak-kinds=definite"];
        cmd = cmd.arg("--leak-check=full").args(kinds);
    }
    let code = cmd.arg(path).args(args.iter().filter(|arg| **arg != LEAKS)).stream()?;
    if code != 0 {
        bail!("memcheck found something in `{name}`, or it failed: code {code}");
    }
    println!("memcheck: {name} {} is clean", args.join(" "));
    Ok(())
}
