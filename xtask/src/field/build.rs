//! What is measured: the stub libibverbs, and one program a crate.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::callgrind::{self, Counted};
use crate::overhead::build as twins;
use crate::sh::{self, Run, cmd};
use crate::{cargo, paths, setup};

/// The profile that is compared, and the one that shows what inlining across crates gives to each.
pub const RELEASE: &str = "release";
pub const LTO: &str = "lto";

/// The workspace of the field.
pub fn directory() -> PathBuf {
    paths::workspace().join("benches/field")
}

/// The crates, by the names of their directories.
pub fn peers() -> Result<Vec<String>> {
    let dir = directory().join("peers");
    let entries = fs::read_dir(&dir).with_context(|| format!("{}", dir.display()))?;
    let names = entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
    let mut names = names.collect::<Result<Vec<_>>>()?;
    // C and this crate first, the others by name.
    names.sort_by_key(|name| (name != C, name != "proverbs", name.clone()));
    Ok(names)
}

/// The compilers, and the crates that were measured.
pub fn versions() -> Result<Vec<String>> {
    let sh = sh::here();
    let mut all = Vec::new();
    for program in ["rustc", "gcc"].into_iter().chain(twins::clang()).chain(["valgrind"]) {
        let text = cmd!(sh, "{program} --version").read()?;
        all.extend(text.lines().next().map(str::to_owned));
    }
    let peers = peers()?;
    let lock = fs::read_to_string(directory().join("Cargo.lock")).context("the field's lock")?;
    let lock: toml::Table = toml::from_str(&lock).context("the field's lock")?;
    for package in lock["package"].as_array().into_iter().flatten() {
        let field = |key| package.get(key).and_then(toml::Value::as_str).unwrap_or_default();
        if peers.iter().any(|peer| peer == field("name")) {
            all.push(format!("{} {}", field("name"), field("version")));
        }
    }
    Ok(all)
}

/// What the programs get in place of a device.
pub struct Stub {
    pub libibverbs: PathBuf,
    /// Loaded before all else: it counts allocations, and knows one file below /sys.
    preload: PathBuf,
}

impl Stub {
    /// The directory of both objects.
    pub fn directory(&self) -> &Path {
        self.libibverbs.parent().unwrap_or(Path::new("."))
    }

    /// What a program needs around it to get them.
    pub fn env(&self) -> [(&'static str, PathBuf); 2] {
        [("LD_PRELOAD", self.preload.clone()), ("LD_LIBRARY_PATH", self.directory().to_owned())]
    }
}

/// Builds the libibverbs that the programs get.
pub fn stub() -> Result<Stub> {
    let out = paths::below_target("field/stub")?;
    let (libibverbs, preload) = (out.join("libibverbs.so.1"), out.join("preload.so"));
    let sh = sh::at(directory().join("stub"));
    // Left out of the counts by its file, so it must not use the C library's loops.
    let flags = [
        "-std=gnu11",
        "-O2",
        "-Wall",
        "-Wextra",
        "-fPIC",
        "-shared",
        "-fno-builtin",
        "-fno-tree-loop-distribute-patterns",
    ];
    let files = ["device.c", "objects.c", "extended.c", "events.c", "missing.c", "allocations.c"];
    let inner = ["-Dstub_measure=stub_measure_inner", "-Dstub_dump=stub_dump_inner"];
    let link = "-Wl,--version-script=libibverbs.map,-soname,libibverbs.so.1,--no-undefined";
    cmd!(sh, "gcc {flags...} {files...} ../../stub/stub.c {inner...} {link} -o {libibverbs}")
        .step("Compiling the stub libibverbs")?;
    cmd!(sh, "gcc {flags...} preload.c -o {preload}").step("Compiling what is loaded before it")?;
    Ok(Stub { libibverbs, preload })
}

/// Builds the program of one crate, or takes it as it was built last.
pub fn program(peer: &str, profile: &str, as_built: bool) -> Result<PathBuf> {
    let target = paths::below_target("field")?;
    let package = format!("field-{peer}");
    let program = target.join(profile).join(&package);
    if as_built && program.exists() {
        return Ok(program);
    }
    cargo::cargo(&["build", "--profile", profile, "--package", &package])?
        .arg("--manifest-path")
        .arg(directory().join("Cargo.toml"))
        .arg("--target-dir")
        .arg(&target)
        // Some of the crates have bindgen generate their bindings.
        .envs(setup::libclang()?)
        // Warnings and settings of the user's environment stay out of the numbers.
        .env_remove("RUSTFLAGS")
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .step(format!("Compiling the program of {peer}, {profile}"))?;
    Ok(program)
}

/// Builds a program and counts it.
pub fn counted(stub: &Stub, peer: &str, profile: &str, as_built: bool) -> Result<Counted> {
    let args = if peer == C { measured_c()? } else { Vec::new() };
    let program = program(peer, profile, as_built)?;
    callgrind::run(&format!("{peer}, {profile}"), &program, &args, &stub.env(), stub.directory())
}

/// The directory of C.
pub const C: &str = "c";

/// What each compiler makes of the measured C, as the program of C takes it.
fn measured_c() -> Result<Vec<OsString>> {
    let source = directory().join("peers/c/src/form.c");
    let out = paths::below_target("field/c")?;
    let mut args = Vec::new();
    for (name, compiler) in [("gcc", Some("gcc")), ("clang", twins::clang())] {
        let Some(compiler) = compiler else { continue };
        let file = out.join(name).with_extension("so");
        twins::compile(compiler, "-O2", std::slice::from_ref(&source), &file)?;
        args.push(format!("{name}={}", file.display()).into());
    }
    Ok(args)
}
