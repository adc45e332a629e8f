//! What is measured: the stub provider, the C twins with each compiler, the Rust forms in each
//! profile.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::field::build::{self as field, Stub};
use crate::sh::{self, Run, cmd};
use crate::{cargo, paths};

/// One way to build the Rust forms.
#[derive(Clone, Copy)]
pub struct Profile {
    pub name: &'static str,
    env: &'static [(&'static str, &'static str)],
}

const UNITS: (&str, &str) = ("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "1");

/// The first gates; the others are printed.
pub const PROFILES: [Profile; 6] = [
    Profile { name: "opt-level 3, codegen-units 1", env: &[UNITS] },
    Profile { name: "opt-level 2", env: &[UNITS, ("CARGO_PROFILE_RELEASE_OPT_LEVEL", "2")] },
    Profile { name: "default codegen units", env: &[] },
    Profile { name: "thin LTO", env: &[UNITS, ("CARGO_PROFILE_RELEASE_LTO", "thin")] },
    Profile { name: "fat LTO", env: &[UNITS, ("CARGO_PROFILE_RELEASE_LTO", "fat")] },
    Profile { name: "panic=abort", env: &[UNITS, ("CARGO_PROFILE_RELEASE_PANIC", "abort")] },
];

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
    let stub = field::stub()?;
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

/// The clang that is here, if there is one.
pub fn clang() -> Option<&'static str> {
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
        "ends",
        "extended",
        "own",
        "ready",
        "failed",
    ];
    names.iter().map(|name| directory.join(name).with_extension("c")).collect()
}

/// Makes a shared object of measured C.
pub fn compile(compiler: &str, level: &str, files: &[PathBuf], out: &Path) -> Result<()> {
    let more: &[&str] = if compiler == "gcc" { &GCC } else { &[] };
    cmd!(sh::here(), "{compiler} {FLAGS...} {level} {more...} {files...} -o {out}")
        .step(format!("Compiling measured C with {compiler} {level}"))
}

/// Builds the Rust forms.
pub fn forms(profile: &Profile) -> Result<PathBuf> {
    let target = paths::below_target("overhead")?;
    let target = target.to_str().context("the target directory is not UTF-8")?;
    let args = ["build", "--release", "--package", "proverbs-overhead", "--target-dir", target];
    let cmd = cargo::cargo(&args)?;
    // Warnings and settings of the user's environment stay out of the numbers.
    let cmd = cmd.env_remove("RUSTFLAGS").env_remove("CARGO_ENCODED_RUSTFLAGS");
    let cmd = cmd.envs(profile.env.iter().copied());
    cmd.step(format!("Compiling the Rust forms, {}", profile.name))?;
    Ok(Path::new(target).join("release/proverbs-overhead"))
}
