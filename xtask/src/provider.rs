//! `cargo xtask provider`: what C and Rust cost on mlx5's own code, with the provider's locks and
//! in a lane.
//!
//! rdma-core is built from Debian's source package; `benches/provider` has the device that is not
//! there, the C twins, and the program. Nothing of it is installed.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use crate::setup::Group;
use crate::sh::{self, Next, Run, cmd};
use crate::{callgrind, cargo, paths, setup};

/// Suites of Debian whose source package will do, the first that can be fetched.
const SUITES: [&str; 2] = ["trixie", "bookworm"];

const FLAGS: [&str; 7] = [
    "-std=gnu11",
    "-O2",
    "-Wall",
    "-fPIC",
    "-shared",
    "-fomit-frame-pointer",
    "-fcf-protection=none",
];

pub fn main() -> Result<()> {
    setup::ensure(&[Group::Build, Group::Valgrind, Group::Provider])?;
    let dir = paths::below_target("provider")?;
    let source = source(&dir)?;
    let objects = Objects::build(&dir, &source)?;
    let units = [("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "1".to_owned())];
    let build = ["build", "--release", "-p", NAME];
    let built = cargo::executables_with("Building the program", &build, &units)?;
    let text = measure(&objects, &cargo::named(&built, NAME)?, &source)?;
    println!("{text}");
    Ok(())
}

const NAME: &str = "proverbs-provider";

/// The directory of rdma-core's source, fetched if it is not there.
fn source(dir: &Path) -> Result<PathBuf> {
    let found = || find(dir, |name| name.starts_with("rdma-core-"));
    if let Some(there) = found()? {
        return Ok(there);
    }
    let parts = paths::directory(dir.join("sources.list.d"))?;
    let suites = SUITES.join(" ");
    let list = format!(
        "Types: deb-src\nURIs: http://deb.debian.org/debian\nSuites: {suites}\nComponents: main\n\
         Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg\n"
    );
    fs::write(parts.join("debian.sources"), list)?;
    // Lists and cache of our own, so that apt needs neither root nor the system's lists.
    let lists = paths::directory(dir.join("lists/partial"))?;
    let cache = paths::directory(dir.join("cache/archives/partial"))?;
    let up = |path: &Path, levels: usize| -> String {
        path.ancestors().nth(levels).unwrap_or(path).display().to_string()
    };
    let options = [
        "Dir::Etc::sourcelist=/dev/null".to_owned(),
        format!("Dir::Etc::sourceparts={}", parts.display()),
        format!("Dir::State::lists={}", up(&lists, 1)),
        format!("Dir::Cache={}", up(&cache, 2)),
        "APT::Sandbox::User=root".to_owned(),
    ];
    let options: Vec<_> = options.iter().flat_map(|option| ["-o", option]).collect();
    let options = &options[..];
    let sh = sh::at(dir);
    cmd!(sh, "apt-get {options...} update")
        .step("Fetching Debian's lists of sources")
        .next("look whether http://deb.debian.org can be reached from here")?;
    for suite in SUITES {
        let what = format!("rdma-core/{suite}");
        // The upstream tarball is enough, whose hash apt has compared: a mirror may lack the rest.
        let fetched = cmd!(sh, "apt-get {options...} source --download-only {what}").succeeds();
        if let Some(tar) = find(dir, |name| name.contains(".orig.tar"))? {
            cmd!(sh, "tar -xf {tar}").step("Unpacking rdma-core")?;
            return found()?.context("the tarball has no rdma-core");
        }
        eprintln!("{suite} has no rdma-core here (apt-get source {fetched})");
    }
    Err(anyhow::anyhow!("no source package of rdma-core could be fetched"))
        .next("unpack a release of rdma-core in target/provider, and run this again")
}

/// The entry of `dir` whose name is like this.
fn find(dir: &Path, like: impl Fn(&str) -> bool) -> Result<Option<PathBuf>> {
    let mut entries = fs::read_dir(dir)?.map(|entry| Ok(entry?.path()));
    let is_like =
        |path: &PathBuf| path.file_name().and_then(|name| name.to_str()).is_some_and(&like);
    let found: Result<Vec<PathBuf>> = entries.by_ref().collect();
    Ok(found?.into_iter().find(is_like))
}

/// What is loaded.
struct Objects {
    /// libibverbs' directory.
    lib: PathBuf,
    provider: PathBuf,
    meter: PathBuf,
    /// Loaded before all else: it counts allocations.
    preload: PathBuf,
    twins: Vec<(&'static str, PathBuf)>,
}

impl Objects {
    fn build(dir: &Path, source: &Path) -> Result<Objects> {
        let build = paths::directory(dir.join("build"))?;
        let sh = sh::at(&build);
        let release = ["-DCMAKE_BUILD_TYPE=Release", "-DNO_MAN_PAGES=1", "-DNO_PYVERBS=1"];
        cmd!(sh, "cmake -S {source} -B {build} {release...}").step("Configuring rdma-core")?;
        let jobs = std::thread::available_parallelism().map_or(1, usize::from).to_string();
        cmd!(sh, "make -j {jobs} ibverbs mlx5").step("Building libibverbs and mlx5 (minutes)")?;

        let ours = paths::workspace().join("benches/provider");
        let sh = sh::at(&ours);
        let mlx5 = build.join("providers/mlx5/CMakeFiles/mlx5.dir");
        let objects: Vec<PathBuf> = fs::read_dir(&mlx5)?
            .map(|entry| Ok(entry?.path()))
            .collect::<Result<Vec<_>>>()?
            .into_iter()
            .filter(|path| path.extension().is_some_and(|kind| kind == "o"))
            .collect();
        ensure!(!objects.is_empty(), "{} has no objects", mlx5.display());
        // Its symbols have versions, which a library of them must name.
        let map = fs::read_to_string(source.join("providers/mlx5/libmlx5.map"))?;
        let nodes = map.lines().filter_map(|line| line.strip_suffix(" {"));
        let script = dir.join("versions.map");
        fs::write(&script, nodes.map(|node| format!("{node} {{ }};\n")).collect::<String>())?;
        let script = format!("-Wl,--version-script={}", script.display());
        let headers = [format!("-I{}", source.join("providers/mlx5").display())];
        let include = build.join("include");
        let config = include.join("config.h");
        let lib = build.join("lib");
        let libs = [
            format!("-L{}", lib.display()),
            "-libverbs".to_owned(),
            build.join("util/librdma_util_pic.a").display().to_string(),
            build.join("ccan/libccan_pic.a").display().to_string(),
            "-lpthread".to_owned(),
        ];
        let provider = dir.join("provider.so");
        cmd!(
            sh,
            "gcc {FLAGS...} {script} {headers...} -I{include} -include {config} fake.c {objects...} -o {provider} {libs...}"
        )
        .step("Linking mlx5 to a device that is not there")?;
        let meter = dir.join("meter.so");
        cmd!(sh, "gcc {FLAGS...} meter.c -o {meter}").step("Compiling the meter")?;
        let preload = dir.join("preload.so");
        cmd!(sh, "gcc {FLAGS...} -fno-builtin ../stub/preload.c -o {preload}")
            .step("Compiling what is loaded before it")?;
        let mut twins = Vec::new();
        for compiler in ["gcc", "clang"] {
            let twin = dir.join(format!("twin-{compiler}.so"));
            cmd!(sh, "{compiler} {FLAGS...} -fno-stack-protector -I{include} twin.c -o {twin}")
                .step("Compiling the C twins")?;
            twins.push((compiler, twin));
        }
        Ok(Objects { lib, provider, meter, preload, twins })
    }
}

/// What a row costs one way.
#[derive(Clone, Copy)]
struct Cost {
    instructions: f64,
    ns: f64,
}

impl Cost {
    const NONE: Cost = Cost { instructions: f64::INFINITY, ns: f64::INFINITY };

    fn shown(self) -> String {
        format!("{:.0} ({:.1})", self.instructions, self.ns)
    }
}

const COLUMNS: [(&str, &str); 4] =
    [("C", "locks"), ("Rust", "locks"), ("C", "lane"), ("Rust", "lane")];

fn measure(objects: &Objects, program: &Path, source: &Path) -> Result<String> {
    let mut args: Vec<OsString> =
        vec![objects.provider.clone().into(), objects.meter.clone().into()];
    for (name, path) in &objects.twins {
        args.push(format!("{name}={}", path.display()).into());
    }
    let env = [("LD_LIBRARY_PATH", objects.lib.clone()), ("LD_PRELOAD", objects.preload.clone())];
    let counted = callgrind::run("mlx5's data path", program, &args, &env, &objects.meter)?;
    for ((label, _), allocations) in counted.each.iter().zip(&counted.allocations) {
        ensure!(*allocations == 0.0, "{label} allocates {allocations} times");
    }
    let timed = cmd!(sh::here(), "{program} {args...}").envs(env).text()?;
    // By row, in the order of the program, and column.
    let mut order: Vec<&str> = Vec::new();
    let mut costs: BTreeMap<(&str, (&str, &str)), Cost> = BTreeMap::new();
    let mut note = |label: &'_ str, set: &dyn Fn(&mut Cost)| -> Result<()> {
        let (row, way) = label.rsplit_once('/').context("a label has a row and a way")?;
        let (who, mode) = way.split_once(", ").context("a way has a language and a mode")?;
        let who = if who == "Rust" { "Rust" } else { "C" };
        let column = COLUMNS.into_iter().find(|column| *column == (who, mode));
        let column = column.with_context(|| format!("`{way}` is no column"))?;
        let row = counted.each.iter().find_map(|(known, _)| {
            let (known, _) = known.rsplit_once('/')?;
            (known == row).then_some(known)
        });
        let row = row.context("a row that was not counted")?;
        if !order.contains(&row) {
            order.push(row);
        }
        set(costs.entry((row, column)).or_insert(Cost::NONE));
        Ok(())
    };
    for (label, instructions) in &counted.each {
        note(label, &|cost| cost.instructions = cost.instructions.min(*instructions))?;
    }
    for line in timed.lines().filter_map(|line| line.strip_prefix("time ")) {
        let (label, ns) = line.rsplit_once(' ').context("a time has a label and a number")?;
        let ns: f64 = ns.parse()?;
        note(label, &|cost| cost.ns = cost.ns.min(ns))?;
    }
    let name = source.file_name().unwrap_or_default().to_string_lossy();
    let mut text = format!(
        "| {name}: instructions (ns) | C, locks | Rust, locks | C, lane | Rust, lane | Rust adds |\n"
    );
    text += "|---|--:|--:|--:|--:|--:|\n";
    for row in order {
        let of = |column| costs.get(&(row, column)).copied().unwrap_or(Cost::NONE);
        let [c, rust, ..] = COLUMNS.map(of);
        let share = (rust.instructions - c.instructions) / c.instructions * 100.0;
        let cells = COLUMNS.map(|column| of(column).shown()).join(" | ");
        writeln!(text, "| {row} | {cells} | {share:+.1} % |")?;
    }
    Ok(text)
}
