//! Builds the stub provider, the C twins with each compiler, and the Rust forms.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::sh::{self, Run, cmd};
use crate::{cargo, paths};

/// What both compilers get. No frame pointers, no hardening of the distribution's, and position
/// independence costs nothing here: the twins name no global.
const FLAGS: [&str; 10] = [
    "-std=gnu11",
    "-Wall",
    "-Wextra",
    "-fPIC",
    "-shared",
    "-fomit-frame-pointer",
    "-fno-stack-protector",
    "-fcf-protection=none",
    "-U_FORTIFY_SOURCE",
    "-fno-plt",
];

/// For gcc: identical functions stay apart, and clearing is stores, not a `rep stosq` that
/// callgrind counts by iteration.
const GCC: [&str; 2] = ["-fno-ipa-icf", "-mstringop-strategy=unrolled_loop"];

const LEVELS: [&str; 2] = ["-O2", "-O3"];

/// clang: what the distribution calls so, or another that is there.
const CLANGS: [&str; 6] = ["clang", "clang-14", "clang-19", "clang-16", "clang-15", "clang-13"];

/// The shared objects.
pub struct Twins {
    pub stub: Stub,
    /// Name (`gcc -O2`) and file.
    pub objects: Vec<(String, PathBuf)>,
    clang: Option<&'static str>,
}

impl Twins {
    /// The tools that made the numbers.
    pub fn versions(&self) -> Result<Vec<String>> {
        let mut all = vec![
            version("rustc")?,
            version("gcc")?,
            version("valgrind")?,
            // Not run, but its optimiser is what rustc and clang share.
            llvm_of_rustc()?,
        ];
        if let Some(clang) = self.clang {
            all.push(version(clang)?);
        }
        Ok(all)
    }
}

fn version(program: &str) -> Result<String> {
    let text = cmd!(sh::here(), "{program} --version").read()?;
    Ok(text.lines().next().unwrap_or_default().to_owned())
}

fn llvm_of_rustc() -> Result<String> {
    let text = cmd!(sh::here(), "rustc -vV").read()?;
    let line = text.lines().find(|line| line.starts_with("LLVM")).unwrap_or("LLVM unknown");
    Ok(format!("rustc's {line}"))
}

/// Builds the stub and the twins.
pub fn twins() -> Result<Twins> {
    let out = paths::below_target("overhead")?;
    let benches = paths::workspace().join("benches");
    let stub = stub()?;
    let clang = clang();
    let mut objects = Vec::new();
    for compiler in [Some("gcc"), clang].into_iter().flatten() {
        for level in LEVELS {
            let name = format!("{} {level}", compiler.split('-').next().unwrap_or(compiler));
            let file = out.join(format!("twins-{compiler}{level}.so"));
            compile(compiler, level, &sources(&benches.join("c")), &file)?;
            objects.push((name, file));
        }
    }
    Ok(Twins { stub, objects, clang })
}

/// What the programs get in place of a device.
pub struct Stub {
    pub libibverbs: PathBuf,
    /// Loaded before all else: it counts allocations.
    preload: PathBuf,
}

impl Stub {
    /// The directory of both objects.
    pub fn directory(&self) -> &Path {
        self.libibverbs.parent().unwrap_or(Path::new("."))
    }

    /// The environment that makes a program load them.
    pub fn env(&self) -> [(&'static str, PathBuf); 2] {
        [("LD_PRELOAD", self.preload.clone()), ("LD_LIBRARY_PATH", self.directory().to_owned())]
    }
}

/// Builds the libibverbs that the programs get.
fn stub() -> Result<Stub> {
    let out = paths::below_target("overhead/stub")?;
    let (libibverbs, preload) = (out.join("libibverbs.so.1"), out.join("preload.so"));
    let sh = sh::at(paths::workspace().join("benches/stub"));
    // Its file is left out of the counts, so it must not use the C library's loops.
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
    let files =
        ["device.c", "objects.c", "extended.c", "events.c", "missing.c", "allocations.c", "stub.c"];
    let inner = ["-Dstub_measure=stub_measure_inner", "-Dstub_dump=stub_dump_inner"];
    let link = "-Wl,--version-script=libibverbs.map,-soname,libibverbs.so.1,--no-undefined";
    cmd!(sh, "gcc {flags...} {files...} {inner...} {link} -o {libibverbs}")
        .step("Compiling the stub libibverbs")?;
    cmd!(sh, "gcc {flags...} preload.c -o {preload}").step("Compiling what is loaded before it")?;
    Ok(Stub { libibverbs, preload })
}

/// The clang that is here, if there is one.
fn clang() -> Option<&'static str> {
    let clang = CLANGS.into_iter().find(|name| cmd!(sh::here(), "{name} --version").succeeds());
    if clang.is_none() {
        eprintln!("warning: there is no clang here; C is measured with gcc alone");
    }
    clang
}

fn sources(directory: &Path) -> Vec<PathBuf> {
    let names = [
        "idiom",
        "fast",
        "c0",
        "c1",
        "c2",
        "c0_selective",
        "c1_selective",
        "c2_selective",
        "life",
        "wake",
        "extended",
        "own",
        "ready",
        "failed",
    ];
    names.iter().map(|name| directory.join(name).with_extension("c")).collect()
}

/// Makes a shared object of measured C.
fn compile(compiler: &str, level: &str, files: &[PathBuf], out: &Path) -> Result<()> {
    let more: &[&str] = if compiler == "gcc" { &GCC } else { &[] };
    cmd!(sh::here(), "{compiler} {FLAGS...} {level} {more...} {files...} -o {out}")
        .step(format!("Compiling measured C with {compiler} {level}"))
}

/// Builds the Rust forms: opt-level 3 in one codegen unit.
pub fn forms() -> Result<PathBuf> {
    let target = paths::below_target("overhead")?;
    let target = target.to_str().context("the target directory is not UTF-8")?;
    let args = ["build", "--release", "--package", "proverbs-overhead", "--target-dir", target];
    let cmd = cargo::cargo(&args)?;
    // Warnings and settings of the user's environment stay out of the numbers.
    let cmd = cmd.env_remove("RUSTFLAGS").env_remove("CARGO_ENCODED_RUSTFLAGS");
    cmd.env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "1").step("Compiling the Rust forms")?;
    Ok(Path::new(target).join("release/proverbs-overhead"))
}
