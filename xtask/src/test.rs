//! `cargo xtask test`: everything that must pass. Without names, some parts run at the same time as
//! the others, in a separate process, so that two processors are always busy.

mod beside;
pub mod guest;

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use beside::Beside;
use clap::ValueEnum;

use crate::setup::{self, Group};
use crate::sh::{self, Run, cmd};
use crate::soft_roce::Library;
use crate::{
    aarch64, cargo, deadline, loom, machine_code, miri, overhead, paths, release, soft_roce,
    suites, toolchain,
};

#[derive(clap::Args)]
pub struct Args {
    /// Run only these parts, in this order [default: everything that must pass before a merge,
    /// about 22 minutes]
    parts: Vec<Part>,
    /// Run the parts `guest` and `interop` on this machine's RDMA device instead of in a guest.
    #[arg(long, value_name = "NAME")]
    device: Option<String>,
    /// Run the part `kernels` only on this kernel.
    #[arg(long, value_name = "NAME")]
    kernel: Option<String>,
    /// Run the part `kernels` or `perftest` only with this rdma-core.
    #[arg(long)]
    library: Option<Library>,
}

/// The parts, in the order in which they run; some run only by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    /// rustfmt, on every member.
    Format,
    /// clippy, warnings denied, on every member, and on the crate with few features.
    Clippy,
    /// Unit tests of the crate, the macros, the examples and xtask.
    Unit,
    /// The suites on the loopback device, in each of its personalities and worlds, its faults, and
    /// the allocation test.
    Loopback,
    /// Our bindings against rdma-sys and the C headers; a counterpart or a reason for each C name;
    /// and raw calls with the types of rdma-sys.
    Bindings,
    /// Half a million random steps on the loopback device with faults, against a model; and a load.
    Simulation,
    /// Examples in the documentation, and the examples on the loopback device.
    Doc,
    /// Packing the published crates, and a new crate that depends on them.
    Package,
    /// The oldest supported Rust; musl; the error on other systems.
    Anywhere,
    /// Programs that must not compile, and their messages.
    Ui,
    /// Each rule of RULES.md that is enforced has a test that names it; the truth tables.
    Rules,
    /// The models of the protocols between threads, with at most three preemptions.
    Loom,
    /// Only by name: the same in every possible order.
    LoomWhole,
    /// The machine code of the post paths.
    MachineCode,
    /// Instructions of a post and a poll against their records, and of cold operations with many
    /// other objects against their bounds.
    Overhead,
    /// Under Miri, on the worst device: the attacks and the unit tests in Stacked Borrows, and the
    /// attacks with threads with weak memory. Tree Borrows, rdma_cm and conformance run at night.
    Miri,
    /// On Soft-RoCE: conformance, attacks, windows, rdma_cm.
    Guest,
    /// Only by name: on Soft-RoCE, every example against its C counterpart, random programs, a
    /// load, device removal, and the C programs that break rules.
    Interop,
    /// Only by name: conformance, attacks, rdma_cm and the C programs on each supported kernel
    /// except the one of `guest`, with the host's rdma-core and the newest.
    Kernels,
    /// Only by name: the example perf against each program of perftest in both roles, with the
    /// host's version and the newest, on the newest kernel.
    Perftest,
    /// Only by name: on iWARP with siw, which is built from Debian's source of the guest's kernel:
    /// rdma_cm and conformance, the rdma_cm examples against the C programs, and memory that siw
    /// sends from on a slow network.
    Siw,
    /// Only by name: conformance and the documentation's examples with the types of rdma-sys.
    RdmaSys,
    /// Only by name: the suites on aarch64, emulated by qemu-user.
    Aarch64,
    /// Only by name: the suites on musl, linked dynamically.
    Musl,
    /// Only by name: rustdoc's search finds the names of the C API, and the names on the porting
    /// pages exist in the versions of the libraries that they state, which are fetched from GitHub.
    Pages,
    /// Only by name: the checks after each change, in about three minutes: format, clippy, unit
    /// tests, and the suites on the plain and on the worst loopback device.
    Quick,
}

impl Part {
    /// Whether it needs another toolchain, or a component that this one lacks.
    fn needs_rustup(self) -> bool {
        match self {
            Self::Anywhere | Self::Aarch64 | Self::Musl | Self::Miri | Self::Ui | Self::Pages => {
                true
            }
            Self::Format | Self::Clippy | Self::Quick => !toolchain::has_tools(),
            _ => false,
        }
    }
}

/// The time limit for everything. CI stops after 90 minutes.
const LIMIT: Duration = Duration::from_secs(85 * 60);

/// The features for users.
pub const FEATURES: &str = "loopback,tokio,serde,zerocopy,anyhow,eyre,tracing";

/// The build options of the suites. One build with the same packages and features serves all of
/// them.
pub const TEST: [&str; 4] = ["test", "--workspace", "--features", FEATURES];

/// The parts that run only by name.
const BY_NAME: [Part; 10] = {
    use Part::*;
    [Interop, Kernels, Perftest, Siw, RdmaSys, LoomWhole, Aarch64, Musl, Pages, Quick]
};

/// The parts that run in the second process. Together they take as long as the others. Miri is the
/// first, because it does not wait for a build of the other process: cargo locks its output.
const BESIDE: [Part; 5] = [Part::Miri, Part::Guest, Part::Loom, Part::MachineCode, Part::Overhead];

pub fn main(args: &Args) -> Result<()> {
    if !args.parts.is_empty() {
        if toolchain::has_rustup() {
            toolchain::in_stable()?;
        } else if args.parts.iter().any(|part| part.needs_rustup()) {
            let names: Vec<String> = args.parts.iter().map(|part| name(*part)).collect();
            let typed = format!("cargo xtask test {}", names.join(" "));
            setup::ensure_with_rustup(&typed, &[Group::Build])?;
        }
        let times = run_all(&args.parts, args, None)?;
        tell(&times);
        println!("{} passed, 0 failed", times.len());
        return Ok(());
    }
    deadline::start(LIMIT)?;
    // Once, because two would block each other; and for all parts, so that a user without root sees
    // one complete list.
    use Group::*;
    let groups = [Build, Git, Libclang, Guest, Valgrind, Node, Musl];
    setup::ensure_with_rustup("cargo xtask test", &groups)?;
    toolchain::in_stable()?;
    toolchain::nightly()?;
    let mut names: Vec<String> = BESIDE.iter().map(|part| name(*part)).collect();
    names.extend(args.device.iter().flat_map(|device| ["--device".to_owned(), device.clone()]));
    let mut beside = Beside::start(&names)?;
    let is_here = |part: &Part| !BESIDE.contains(part) && !BY_NAME.contains(part);
    let parts: Vec<Part> = Part::value_variants().iter().copied().filter(is_here).collect();
    let times = run_all(&parts, args, Some(&mut beside))?;
    eprintln!("{}", beside.finish()?);
    tell(&times);
    println!("{} passed, 0 failed", times.len() + BESIDE.len());
    Ok(())
}

/// Runs these parts in this order, unless the other process fails.
fn run_all(
    parts: &[Part],
    args: &Args,
    mut beside: Option<&mut Beside>,
) -> Result<Vec<(Part, Duration)>> {
    let mut times = Vec::new();
    for (i, &part) in parts.iter().enumerate() {
        ensure!(!deadline::left().is_zero(), "no time is left for part `{}`", name(part));
        let start = Instant::now();
        let next = parts.get(i + 1).map_or("nothing".to_owned(), |part| name(*part));
        eprintln!("\n=== {} ({} of {}; then {next})", name(part), i + 1, parts.len());
        run(part, args).with_context(|| {
            let name = name(part);
            format!("part `{name}` failed; run it alone with `cargo xtask test {name}`")
        })?;
        if let Some(beside) = &mut beside {
            beside.look()?;
        }
        let time = start.elapsed();
        eprintln!("=== {} passed in {:.0} s", name(part), time.as_secs_f64());
        times.push((part, time));
    }
    Ok(times)
}

fn tell(times: &[(Part, Duration)]) {
    eprintln!();
    for (part, time) in times {
        eprintln!("passed {:>6.1} s  {part:?}", time.as_secs_f64());
    }
}

/// The name of a part on the command line.
fn name(part: Part) -> String {
    part.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}

fn run(part: Part, args: &Args) -> Result<()> {
    setup::ensure(&[Group::Build])?;
    match part {
        Part::Format => cargo::run(&["fmt", "--all", "--check"]),
        Part::Clippy => {
            clippy()?;
            // Code that is unused without a feature causes a warning. The last features only add
            // waits, impls and events.
            let alone = ["", "cm", "loopback", "tokio,serde,zerocopy,anyhow,eyre,tracing"];
            for features in alone {
                let alone = ["clippy", "--no-default-features", "--features", features];
                cargo::run(&[&alone[..], &["--", "-D", "warnings"]].concat())?;
            }
            Ok(())
        }
        Part::Unit => cargo::run(&[&TEST[..], &units()].concat()),
        Part::Loopback => loopback(),
        Part::Bindings => bindings(),
        Part::RdmaSys => {
            let env = setup::libclang()?;
            cargo::run_with(&[&RDMA_SYS[..], &["--doc"]].concat(), &env)?;
            cargo::run_with(&[&RDMA_SYS[..], &["--test", "conformance"]].concat(), &env)
        }
        Part::Simulation => suites::quick(),
        Part::Doc => doc(),
        Part::Package => release::package(false),
        Part::Anywhere => release::anywhere(),
        Part::Ui => cargo::run(&suites("ui")),
        Part::Rules => cargo::run(&suites("rules truth_table")),
        Part::Loom | Part::LoomWhole => loom::check((part == Part::Loom).then_some("3")),
        Part::MachineCode => machine_code::check(),
        Part::Overhead => {
            overhead::gate()?;
            overhead::growth::gate()
        }
        Part::Miri => miri::quick(),
        Part::Guest => guest::suites(args.device.as_deref()),
        Part::Interop => guest::interop(args.device.as_deref()),
        Part::Aarch64 => aarch64::suites(),
        Part::Musl => release::musl(),
        Part::Pages => search().and_then(|()| ported()),
        Part::Quick => quick(),
        Part::Kernels => guest::kernels(args.kernel.as_deref(), args.library),
        Part::Perftest => guest::perftest(args.library),
        Part::Siw => guest::siw(),
    }
}

fn clippy() -> Result<()> {
    let args = ["clippy", "--workspace", "--all-targets", "--features", FEATURES];
    cargo::run(&[&args[..], &["--", "-D", "warnings"]].concat())
}

/// The checks after each change.
fn quick() -> Result<()> {
    cargo::run(&["fmt", "--all", "--check"])?;
    clippy()?;
    eprintln!("\n--- unit tests, and the suites on the plain loopback device");
    cargo::run(&[&suites(PLAIN)[..], &units()].concat())?;
    eprintln!("\n--- the suites on the worst loopback device");
    cargo::run_with(&suites(ANYWHERE), &device("worst:1", ""))
}

/// The examples with unit tests.
const EXAMPLES: &str = "engine kv log nvmf_host nvmf_target rping target";

/// The cargo arguments for everything with unit tests.
fn units() -> Vec<&'static str> {
    let examples = EXAMPLES.split(' ').flat_map(|name| ["--example", name]);
    ["--lib", "--bins"].into_iter().chain(examples).collect()
}

/// The loopback devices besides the plain one in an IPv4 world: a personality (empty for the plain
/// one), a world, and the suites that run there. The crate uses devices of an unknown provider in
/// its strict form.
const DEVICES: [(&str, &str, &str); 8] = [
    ("rxe", "ipv4", ANYWHERE),
    ("mlx5", "ipv4", ANYWHERE),
    ("worst:1", "ipv4", ANYWHERE),
    ("worst:2", "ipv4", ANYWHERE),
    ("worst:3", "ipv6", ANYWHERE),
    ("worst:4", "infiniband", ANYWHERE),
    ("", "iwarp", "cm conformance"),
    ("", "unknown", "conformance"),
];

/// The variables that select a loopback device. An empty name selects the plain one.
pub fn device(personality: &'static str, world: &'static str) -> Vec<(&'static str, &'static str)> {
    let mut all = vec![("PROVERBS_PERSONALITY", personality), ("PROVERBS_WORLD", world)];
    all.retain(|(_, name)| !name.is_empty());
    all
}

/// Tests that do not apply to the devices of this world.
pub fn skipped(world: &str) -> &'static [&'static str] {
    match world {
        "infiniband" => &OF_ROCE,
        "iwarp" => &guest::OF_UD,
        _ => &[],
    }
}

/// Tests that are specific to RoCE: a GRH is always present, and addresses must have one.
const OF_ROCE: [&str; 8] = [
    "endpoint::another_transport_is_refused",
    "query::a_port_reports_its_state",
    "refusals::a_gid_index_that_is_not_filled",
    "srq::ud_receives_keep_their_grh",
    "states::a_refused_transition_returns_the_queue_pair_unchanged",
    "ud::a_grh_",
    "ud::datagrams_arrive_after_their_grh",
    "ud_addresses::an_invalid_address_vector_is_refused_with_its_fields",
];

/// The suites that run on each of them.
const ANYWHERE: &str = "conformance attack faults endpoint worlds cm";

/// The suites that run on the plain device: these, and the suites that do not depend on the device.
const PLAIN: &str = "conformance attack faults endpoint worlds cm allocation descriptors errors \
                     fork guide messages mistakes names out_of_memory prose raw rooms tracing waits";

/// The cargo arguments for these suites.
pub fn suites(names: &str) -> Vec<&str> {
    let names = names.split(' ').flat_map(|name| ["--test", name]);
    TEST.into_iter().chain(["--quiet"]).chain(names).collect()
}

/// Builds these suites; the executables by their names.
pub fn built(names: &str) -> Result<Vec<(String, PathBuf)>> {
    cargo::executables("Building the suites", &[&suites(names)[..], &["--no-run"]].concat())
}

fn loopback() -> Result<()> {
    cargo::run(&suites(PLAIN))?;
    for (personality, world, names) in DEVICES {
        eprintln!("\n--- {personality} {world}");
        let mut args = [&suites(names)[..], &["--"]].concat();
        args.extend(skipped(world).iter().flat_map(|name| ["--skip", *name]));
        cargo::run_with(&args, &device(personality, world))?;
    }
    Ok(())
}

/// Tests with the types of rdma-sys.
const RDMA_SYS: [&str; 4] = ["test", "--quiet", "--features", "rdma-sys"];

fn bindings() -> Result<()> {
    let env = setup::libclang()?;
    let agreement = ["--lib", "agreement", "--", "--include-ignored"];
    let mut with_newest = env.to_vec();
    let headers = soft_roce::newest_headers().map(|headers| headers.display().to_string());
    with_newest.extend(headers.map(|headers| ("PROVERBS_HEADERS", headers)));
    let names = [&suites("c_names")[..], &["--", "--include-ignored"]].concat();
    cargo::run_with(&names, &with_newest)?;
    cargo::run_with(&[&RDMA_SYS[..], &["-p", "proverbs-sys"], &agreement].concat(), &with_newest)?;
    cargo::run_with(&[&RDMA_SYS[..], &["--test", "raw"]].concat(), &env)
}

fn doc() -> Result<()> {
    // The examples of re-exported items are in their own crates.
    let crates = ["-p", "proverbs", "-p", "proverbs-sys", "-p", "proverbs-loopback"];
    cargo::run(&[&TEST[..], &["--doc"]].concat())?;
    cargo::run_with(
        &[&["doc", "--no-deps", "--quiet", "--features", FEATURES], &crates[..]].concat(),
        &[("RUSTDOCFLAGS", "-D warnings")],
    )?;
    examples()
}

/// Compares the left columns of the porting pages with the commits that the pages name.
fn ported() -> Result<()> {
    let place = paths::below_target("ported")?;
    let projects = [
        ("rdma-core", "linux-rdma/rdma-core", "porting"),
        ("ibverbs", "jonhoo/rust-ibverbs", "from_ibverbs"),
        ("sideway", "RDMA-Rust/sideway", "from_sideway"),
    ];
    for (name, repository, page) in projects {
        let page = fs::read_to_string(paths::workspace().join(format!("src/guide/{page}.md")))?;
        let (_, rest) = page.split_once("commit `").context("the page names no commit")?;
        let commit = rest.split('`').next().unwrap_or_default();
        let sh = sh::at(paths::directory(place.join(name))?);
        let url = format!("https://github.com/{repository}");
        let is_there = || cmd!(sh, "git checkout --quiet --detach {commit}").succeeds();
        let fetched = cmd!(sh, "git init --quiet").succeeds()
            && (is_there()
                || cmd!(sh, "git fetch --quiet --depth 1 {url} {commit}").succeeds() && is_there());
        ensure!(fetched, "cannot fetch {url}");
    }
    let test = ["test", "--quiet", "--test", "porting", "--", "--include-ignored"];
    cargo::run_with(&test, &[("PROVERBS_PORTED", place)])
}

/// Checks that rustdoc's search finds C names through the aliases. The pages are built with the
/// nightly, as on docs.rs, because rustdoc 1.95 loses the aliases of re-exported items.
fn search() -> Result<()> {
    setup::ensure(&[Group::Node])?;
    toolchain::nightly()?;
    let target = paths::below_target("nightly")?.display().to_string();
    let line = ["doc", "--no-deps", "--quiet", "--features", FEATURES, "-p", "proverbs"];
    cargo::nightly(&[&line[..], &["--target-dir", &target]].concat())?.run()?;
    let pages = format!("{target}/doc");
    let test = ["test", "--quiet", "--test", "doc_search", "--", "--include-ignored"];
    cargo::run_with(&test, &[("PROVERBS_DOC", pages)])
}

/// Every example supports `--help`, and examples that need no device do what their page shows, in
/// the dev profile, as a reader of the page runs them. The rdma_cm examples run in the part
/// `interop`.
fn examples() -> Result<()> {
    let build = [&["build"], &TEST[1..], &["--examples", "--bins"]].concat();
    let built = cargo::executables("Building the examples", &build)?;
    let example = |name: &str, args: &[&str]| -> Result<()> {
        let program = cargo::named(&built, name)?;
        Ok(cmd!(sh::at(paths::workspace()), "{program} {args...}").run()?)
    };
    for entry in fs::read_dir(paths::workspace().join("examples"))? {
        let path = entry?.path();
        let is_example = path.join("main.rs").exists() || path.extension() == Some("rs".as_ref());
        if let (true, Some(name)) = (is_example, path.file_stem().and_then(OsStr::to_str)) {
            example(name, &["--help"])?;
        }
    }
    is_linked_to_no_verbs(&cargo::named(&built, "first_steps")?)?;
    for name in "first_steps structs windows forward kv devinfo target engine".split(' ') {
        example(name, &[])?;
    }
    example("monitor", &["-d", "loopback", "--rows", "2", "--interval", "100"])?;
    example("faults", &["42"])?;
    example("log", &["-d", "loopback"])?;
    example("perf", &["--help"])?;
    example("perf", &["-d", "loopback", "-V", "send", "--lat"])?;
    light()?;
    for name in ["rc_pingpong", "uc_pingpong", "ud_pingpong", "srq_pingpong", "tokio_pingpong"] {
        example(name, &["-d", "loopback", "-c"])?;
    }
    Ok(())
}

/// Both libraries are loaded on first use.
fn is_linked_to_no_verbs(program: &Path) -> Result<()> {
    let needed = cmd!(sh::here(), "readelf --dynamic {program}").text()?;
    let found = ["libibverbs", "librdmacm", "libefa"].iter().any(|name| needed.contains(name));
    ensure!(needed.contains("[libc.so.6]") && !found, "a library is linked: {needed}");
    Ok(())
}

/// The examples of the crate do not wait for heavy dependencies.
fn light() -> Result<()> {
    let tree = cargo::cargo(&["tree", "-p", "proverbs", "-e", "normal,build,dev"])?.text()?;
    for heavy in ["plotters", "clap", "indicatif"] {
        ensure!(!tree.contains(heavy), "the examples depend on {heavy}:\n{tree}");
    }
    Ok(())
}

/// `cargo xtask demo`: the short example, and a ping-pong with both ends in one process on the
/// loopback device. They are in a separate package, and built with debug assertions, so that new
/// users wait less for the build.
pub fn demo() -> Result<()> {
    let shown = |name: &str, args: &[&str]| {
        let run = ["run", "--quiet", "--package", "demo", "--bin", name, "--"];
        cargo::run(&[&run, args].concat())
    };
    cargo::executables("Building two examples", &["build", "--package", "demo"])?;
    println!("Two queue pairs, a chain of writes, a read and an atomic:");
    shown("first_steps", &[])?;
    println!("\nAn RC ping-pong, every byte checked:");
    shown("rc_pingpong", &["-d", "loopback", "-c"])?;
    println!("\nThe same on a real kernel's RDMA stack, against rdma-core's C programs:");
    println!("  cargo xtask test interop");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A filter that matches no test would run, or skip, nothing.
    #[test]
    fn tests_that_are_named_exist() {
        let named = [
            include_str!("test.rs"),
            include_str!("miri.rs"),
            include_str!("sanitize.rs"),
            include_str!("aarch64.rs"),
        ];
        let root = paths::workspace();
        let sources = cmd!(sh::at(&root), "git grep -h -E 'fn [a-z_0-9]+[(]' -- src tests");
        let sources = sources.read().expect("git grep finds functions");
        let words = named.iter().flat_map(|text| text.split(['"', ' ', '\n']));
        let is_path = |word: &&str| {
            word.contains("::") && word.chars().all(|c| c.is_ascii_lowercase() || "_:".contains(c))
        };
        let tests = words.filter(is_path).filter_map(|word| word.rsplit("::").next());
        let tests: Vec<&str> = tests.filter(|test| test.matches('_').count() > 2).collect();
        assert!(tests.len() > 10, "{tests:?}");
        let missing: Vec<_> =
            tests.iter().filter(|test| !sources.contains(&format!("fn {test}"))).collect();
        assert!(missing.is_empty(), "{missing:?}");
    }

    #[test]
    fn the_tests_of_each_example_are_run() {
        let has_tests = |name: &str| {
            let place = format!("examples/{name}");
            cmd!(sh::at(paths::workspace()), "grep -rqF #[test] {place}").succeeds()
        };
        for entry in fs::read_dir(paths::workspace().join("examples")).expect("there are examples")
        {
            let path = entry.expect("an entry").path();
            let name = path.file_name().expect("a name").to_string_lossy();
            if path.is_file() || path.join("main.rs").exists() {
                let name_of_target = name.trim_end_matches(".rs");
                let is_run = EXAMPLES.split(' ').any(|one| one == name_of_target);
                assert_eq!(has_tests(&name), is_run, "{name}");
            }
        }
    }

    /// Every suite must be named by a part, or it would never run.
    #[test]
    fn each_suite_is_in_a_part() {
        let parts = concat!(include_str!("test.rs"), include_str!("test/guest.rs"));
        let code = parts.lines().filter(|line| !line.trim_start().starts_with("//"));
        let words: Vec<&str> = code.flat_map(|line| line.split(['"', ' '])).collect();
        let files = fs::read_dir(paths::workspace().join("tests")).expect("there are suites");
        let files = files.map(|file| file.expect("a file").path());
        for file in files.filter(|file| file.extension().is_some_and(|kind| kind == "rs")) {
            let name = file.file_stem().expect("a name").to_string_lossy();
            let is_run = PLAIN.split(' ').any(|suite| suite == name) || words.contains(&&*name);
            assert!(is_run, "no part runs {name}");
        }
    }
}
