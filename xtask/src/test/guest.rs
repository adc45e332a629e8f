//! On Soft-RoCE, siw or a real device: the suites, every example against its C counterpart, and the
//! C programs that break rules.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail, ensure};

use crate::setup::{self, Group};
use crate::sh::{self, Run, cmd};
use crate::soft_roce::{self, Driver, Guest, Library, NAMED};
use crate::test::{FEATURES, built};
use crate::{cargo, paths, what_c_does};

/// The suites, in one boot.
pub fn suites(device: Option<&str>) -> Result<()> {
    setup::ensure(&[Group::Guest])?;
    let tests = built("conformance attack cm handles")?;
    // These use raw calls to create windows, queues that are fuller than the crate knows, and
    // queues with inline pieces.
    let raw = cargo::executables_with(
        "Building the tests with raw calls",
        &["test", "--no-run", "--features", "rdma-sys", "--test", "raw"],
        &setup::libclang()?,
    )?;
    let raw = path_of(&raw, "raw")?;
    let lines = [
        // Most tests of rdma_cm wait for the kernel's time limits.
        format!("said=$(mktemp); {} >$said 2>&1 & cm=$!", path_of(&tests, "cm")?),
        path_of(&tests, "conformance")?,
        path_of(&tests, "attack")?,
        "code=0; wait $cm || code=$?; cat $said; rm $said; [ $code = 0 ]".to_owned(),
        format!("{raw} --ignored window::"),
        format!("{raw} bad_wr::"),
        format!("{raw} sessions::"),
        format!("{} --ignored", path_of(&tests, "handles")?),
    ];
    on_device(device, &lines)
}

/// Every example against its C counterpart, programs that create load or count, and the C programs
/// that break rules.
pub fn interop(device: Option<&str>) -> Result<()> {
    setup::ensure(&[Group::Guest])?;
    let tests = built("cm differential load imm_interop absence")?;
    let examples = &examples()?;
    let connections = cargo::executables(
        "Building the connections whose system calls are counted",
        &["build", "--release", "--package", "proverbs-connections"],
    )?;
    let connections = cargo::named(&connections, "proverbs-connections")?.display().to_string();
    let connections_c = connections_c()?.display().to_string();
    let script = paths::workspace().join("benches/connections/connections.sh");
    let imm = path_of(&tests, "imm_interop")?;
    let cm = path_of(&tests, "cm")?;
    let mut lines = vec![
        format!("{} --queue-pairs 64 --messages 5000", path_of(&tests, "load")?),
        format!("PROVERBS_IMM_PEER={} {imm} --ignored", imm_peer()?.display()),
        format!("{cm} --ignored --test-threads=1 leaks::"),
        format!("sh {} {connections} {connections_c}", script.display()),
    ];
    lines.extend(INTEROP.iter().map(|script| interop_line(script, examples)));
    // The part `perftest` runs the bandwidth tests and the newest perftest, because they take
    // longer.
    lines.push(format!("{} '*_lat *'", interop_line(PERFTEST, examples)));
    if device.is_none() {
        // A guest reserves pages of 2 MiB.
        let kv = examples.join("kv").display().to_string();
        lines.push(format!("{kv} --huge"));
        // In the second run, the file has the contents of the first. (The file is in memory,
        // because newer kernels do not pin pages of a file that they write back.)
        lines.push(format!("{kv} --file /dev/shm/kv"));
        lines.push(format!("{kv} --file /dev/shm/kv | grep 'an earlier run left rule = types'"));
        // Deviations are known only for Soft-RoCE.
        lines.push(format!("{} --programs 10", path_of(&tests, "differential")?));
        // Linux's NVMe host, of the guest's kernel.
        lines.push(interop_line("nvme.sh", examples));
        // This takes the link down, so it runs only in a guest, and after everything that needs the
        // link.
        lines.push(interop_line("asyncwatch.sh", examples));
        // These replace the device by one with another address, make it unavailable in each way,
        // and remove it.
        lines.push(format!("PROVERBS_MAY_REPLACE=rxe0 {cm} replaced::"));
        let script = paths::workspace().join("tests/interop/absence.sh");
        lines.push(format!("sh {} {}", script.display(), path_of(&tests, "absence")?));
        let address = "PROVERBS_ADDRESS=10.77.9.1";
        lines.push(format!("{address} PROVERBS_MAY_REMOVE=rxe0 {cm} removal::"));
    }
    on_device(device, &lines)?;
    // The results of the C programs are recorded only for Soft-RoCE.
    if device.is_none() { what_c_does::run(Driver::Rxe) } else { Ok(()) }
}

/// Runs these lines until one fails, on a device of this machine or in a guest.
fn on_device(device: Option<&str>, lines: &[String]) -> Result<()> {
    let script = format!("set -e\n{}", lines.join("\n"));
    let command = ["sh", "-c", &script];
    let code = match device {
        Some(device) => soft_roce::on_device(device, &command)?,
        None => soft_roce::run(&Guest::default().with_nodes(), &command)?,
    };
    ensure!(code == 0, "the tests on a real device failed with code {code}");
    Ok(())
}

/// Builds the examples and perf. Returns the directory of the examples.
fn examples() -> Result<PathBuf> {
    cargo::executables("Building perf", &["build", "--release", "--package", "perf"])?;
    let examples = cargo::executables(
        "Building the examples",
        &["build", "--release", "--examples", "--features", FEATURES],
    )?;
    let mut one = cargo::named(&examples, "rc_pingpong")?;
    one.pop();
    Ok(one)
}

/// The path of an executable, quoted for a shell.
fn path_of(executables: &[(String, PathBuf)], name: &str) -> Result<String> {
    Ok(cargo::named(executables, name)?.display().to_string())
}

/// Builds the C connections, whose system calls are compared with ours.
fn connections_c() -> Result<PathBuf> {
    let program = paths::below_target("connections")?.join("connections");
    let source = paths::workspace().join("benches/connections/connections.c");
    cmd!(sh::here(), "gcc -std=gnu11 -O2 -Wall -Wextra -o {program} {source} -libverbs")
        .step("Building the connections of C")?;
    Ok(program)
}

/// On iWARP, in a guest with siw: the rdma_cm examples against the C programs, the rdma_cm suite,
/// conformance, the attacks, and, on a kernel with a slow network, sends from the program's pages.
pub fn siw() -> Result<()> {
    setup::ensure(&[Group::Guest])?;
    let tests = built("conformance attack cm")?;
    let (conformance, cm) = (path_of(&tests, "conformance")?, path_of(&tests, "cm")?);
    let attack = path_of(&tests, "attack")?;
    let examples = &examples()?;
    let skips = OF_UD.map(|name| format!("--skip {name}")).join(" ");
    let lines = [
        interop_line("cm.sh", examples),
        interop_line("nvme.sh", examples),
        format!("{cm} {skips} --skip removal::"),
        // Some tests wait for long, so there are more threads than processors.
        format!("RUST_BACKTRACE=0 timeout 3000 {conformance} --quiet --test-threads 4"),
        format!("RUST_BACKTRACE=0 timeout 1800 {attack} --quiet --test-threads 4"),
    ];
    // All of them, so that one boot shows all differences.
    let lines = lines.map(|line| format!("{line} || code=1")).join("\n");
    let script = format!("code=0\n{lines}\nexit $code");
    let guest = Guest { driver: Driver::Siw, ..Guest::default() };
    match soft_roce::run(&guest, &["sh", "-c", &script])? {
        0 => what_c_does::run(Driver::Siw)?,
        code => bail!("the tests on siw failed with code {code}"),
    }
    let kernel = ZERO_COPY.to_owned();
    let guest = Guest { driver: Driver::Siw, kernel, ..Guest::default() };
    let script = paths::workspace().join("tests/interop/zero_copy.sh");
    match soft_roce::run(&guest, &["sh", "-c", &format!("sh {} {conformance}", script.display())])?
    {
        0 => Ok(()),
        code => bail!("memory was reused while siw was sending from it (code {code})"),
    }
}

/// A kernel whose siw is known to send from a program's pages.
const ZERO_COPY: &str = "6.12";

/// Tests of rdma_cm with UD, which iWARP does not support.
pub const OF_UD: [&str; 1] = ["datagram::"];

/// All programs of perftest, in both roles, on the newest kernel: the host's version, and the
/// newest with the newest rdma-core.
pub fn perftest(library: Option<Library>) -> Result<()> {
    setup::ensure(&[Group::Guest])?;
    let line = interop_line(PERFTEST, &examples()?);
    let libraries = library.map_or(vec![Library::Host, Library::Newest], |library| vec![library]);
    for library in libraries {
        on_kernel(NAMED[NAMED.len() - 1], library, &["sh", "-c", &line])?;
    }
    Ok(())
}

/// The suites and the C programs on the other kernels with both libraries, or on one kernel or with
/// one library. A failure does not prevent the others from running.
pub fn kernels(kernel: Option<&str>, library: Option<Library>) -> Result<()> {
    setup::ensure(&[Group::Guest])?;
    let tests = built("conformance attack cm")?;
    let suites = [path_of(&tests, "conformance")?, path_of(&tests, "attack")?];
    let suites = format!("{} {}", suites.join(" "), path_of(&tests, "cm")?);
    let script = paths::workspace().join("tests/interop/kernels.sh");
    let line = format!("sh {} {suites} {}", script.display(), examples()?.display());
    let kernels = kernel.map_or(NAMED[1..].to_vec(), |kernel| vec![kernel]);
    let libraries = library.map_or(vec![Library::Host, Library::Newest], |library| vec![library]);
    let mut failed = Vec::new();
    for kernel in kernels {
        for &library in &libraries {
            if let Err(error) = on_kernel(kernel, library, &["sh", "-c", &line]) {
                eprintln!("{error:#}");
                failed.push(format!("Linux {kernel} with the {library:?} library"));
            }
        }
    }
    ensure!(failed.is_empty(), "these failed: {}", failed.join("; "));
    Ok(())
}

fn on_kernel(kernel: &str, library: Library, command: &[&str]) -> Result<()> {
    let guest = Guest { kernel: kernel.to_owned(), library, ..Guest::default() };
    match soft_roce::run(&guest.with_nodes(), command)? {
        0 => Ok(()),
        code => bail!("the tests on Linux {kernel} failed with code {code}"),
    }
}

/// Examples against their C counterparts.
const INTEROP: [&str; 4] = ["devinfo.sh", "pingpong.sh", "cm.sh", "perf.sh"];
/// The example perf against the programs of perftest.
const PERFTEST: &str = "perftest.sh";

/// The line that runs one of these scripts.
fn interop_line(script: &str, examples: &Path) -> String {
    let script = paths::workspace().join("tests/interop").join(script);
    format!("sh {} {}", script.display(), examples.display())
}

/// Builds the C peer that checks the byte order of immediates.
fn imm_peer() -> Result<PathBuf> {
    let peer = paths::below_target("interop")?.join("imm_peer");
    let source = paths::workspace().join("tests/interop/imm/imm_peer.c");
    cmd!(sh::here(), "gcc -std=gnu11 -O1 -Wall -Wextra -Werror -o {peer} {source} -libverbs")
        .step("Building the C peer for immediates")?;
    Ok(peer)
}
