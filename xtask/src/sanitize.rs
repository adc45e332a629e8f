//! `cargo xtask sanitize`: the suites under AddressSanitizer, ThreadSanitizer or memcheck.

use std::path::Path;

use anyhow::Result;

use crate::setup::{self, Group};
use crate::sh::{self, cmd};
use crate::test::built;
use crate::{cargo, toolchain};

#[derive(clap::Args)]
pub struct Args {
    /// The tool to use.
    tool: Tool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Tool {
    /// AddressSanitizer, for invalid memory accesses; and LeakSanitizer, for tests that do not leak
    /// on purpose.
    Address,
    /// ThreadSanitizer, for data races.
    Thread,
    /// valgrind's memcheck, also for uninitialised memory.
    Memcheck,
}

/// Tests that leak, because they forget values, exit their process, or drop values during a panic.
pub const FORGETTING: [&str; 3] = ["forget::", "exit::", "contexts::contexts_that_panic"];

/// Tests that need the C library's `mlock`, which sanitizers replace with a function that does
/// nothing.
const LOCKING: [&str; 2] = [
    "exit::a_limit_on_locked_memory",
    "own_memory::a_mapping_that_is_populated_locked_and_not_inherited",
];

/// Tests with a length that a kernel rejects for lack of memory, and valgrind as invalid.
const TOO_LONG: [&str; 2] = ["--skip", "own_memory::a_mapping_of_no_bytes_or_of_too_many"];

const SUITES: [&str; 4] = ["--test", "conformance", "--test", "attack"];

pub fn main(args: &Args) -> Result<()> {
    let skip = FORGETTING.map(|name| ["--skip", name]).concat();
    match args.tool {
        Tool::Address => {
            sanitize("address", &SUITES, &[], "detect_leaks=0")?;
            sanitize("address", &SUITES[2..], &skip, "detect_leaks=1")
        }
        Tool::Thread => sanitize("thread", &SUITES, &[], ""),
        Tool::Memcheck => memcheck(&skip),
    }
}

/// The standard library is rebuilt with the sanitizer, so that its accesses are not reported as
/// races.
fn sanitize(sanitizer: &str, suites: &[&str], skip: &[&str], options: &str) -> Result<()> {
    setup::ensure(&[Group::Build])?;
    toolchain::nightly()?;
    // One directory for all, because macros and build scripts are the same for each. A failing
    // suite does not prevent the others from running.
    let build = ["test", "-Zbuild-std", "--no-fail-fast", "--target-dir", "target/sanitize"];
    let target = ["--target", "x86_64-unknown-linux-gnu"];
    let locking = LOCKING.map(|name| ["--skip", name]).concat();
    let tests = [suites, &["--"], &locking, skip].concat();
    // Very large allocations fail, as with the system allocator; and a process that reads beyond
    // the end of a file is killed by the signal, as a test expects.
    let options = format!("allocator_may_return_null=1:handle_sigbus=0:{options}");
    let cmd = cargo::nightly(&[&build[..], &target, &tests].concat())?;
    let cmd = cmd.env("RUSTFLAGS", format!("-Zsanitizer={sanitizer}"));
    Ok(cmd.env("ASAN_OPTIONS", &options).env("TSAN_OPTIONS", &options).run()?)
}

/// Runs the suites, and checks that tests do not leak unless they do so on purpose.
fn memcheck(skip: &[&str]) -> Result<()> {
    setup::ensure(&[Group::Build, Group::Valgrind])?;
    let suites = built("conformance attack")?;
    let [conformance, attack] = ["conformance", "attack"].map(|name| cargo::named(&suites, name));
    let attack = attack?;
    valgrind(&[], &conformance?, &TOO_LONG)?;
    valgrind(&[], &attack, &[])?;
    let definite = ["--show-leak-kinds=definite", "--errors-for-leak-kinds=definite"];
    valgrind(&[&["--leak-check=full"], &definite[..]].concat(), &attack, skip)?;
    Ok(())
}

fn valgrind(options: &[&str], program: &Path, args: &[&str]) -> Result<()> {
    let sh = sh::here();
    cmd!(sh, "valgrind --quiet --error-exitcode=99 {options...} {program} {args...}").run()?;
    println!("memcheck: {} {} is clean", program.display(), args.join(" "));
    Ok(())
}
