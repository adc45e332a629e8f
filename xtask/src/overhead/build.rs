//! Builds the stub provider, the C twins with each compiler, and the Rust forms.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::sh::{self, Cmd, Run, cmd};
use crate::{cargo, paths};

/// The flags for both compilers: no frame pointers, and no hardening by the distribution. Position
/// independence costs nothing here, because the twins do not use globals.
const FLAGS: &str = "-std=gnu11 -Wall -Wextra -fPIC -shared -fomit-frame-pointer -fno-stack-protector \
                     -fcf-protection=none -U_FORTIFY_SOURCE -fno-plt";

/// For gcc: does not merge identical functions, and clears memory with stores instead of `rep
/// stosq`, whose iterations callgrind counts.
const GCC: [&str; 2] = ["-fno-ipa-icf", "-mstringop-strategy=unrolled_loop"];

/// The compilers of the twins.
pub const COMPILERS: [(&str, &str); 4] =
    [("gcc", "-O2"), ("gcc", "-O3"), ("clang", "-O2"), ("clang", "-O3")];

/// The shared objects.
pub struct Twins {
    pub stub: Stub,
    /// Name (`gcc -O2`) and file.
    pub objects: Vec<(String, PathBuf)>,
}

/// The compilers that produce the numbers, such as `gcc 12.2.0`.
pub fn versions() -> Result<Vec<String>> {
    let sh = sh::here();
    let rustc = cmd!(sh, "rustc --version").read()?;
    let rustc = rustc.split_whitespace().nth(1).context("rustc prints its version")?;
    let gcc = cmd!(sh, "gcc -dumpfullversion").read()?;
    let clang = cmd!(sh, "clang -dumpversion").read()?;
    Ok(vec![format!("rustc {rustc}"), format!("gcc {gcc}"), format!("clang {clang}")])
}

/// Builds the stub, and the twins with these compilers.
pub fn twins(compilers: &[(&str, &str)]) -> Result<Twins> {
    let out = paths::below_target("overhead")?;
    let c = paths::workspace().join("benches/c");
    let mut sources: Vec<String> = paths::names(&c).filter(|name| name.ends_with(".c")).collect();
    sources.sort_unstable();
    let stub = stub()?;
    let mut objects = Vec::new();
    for (compiler, level) in compilers {
        let file = out.join(format!("twins-{compiler}{level}.so"));
        compile(compiler, level, &sources, &file)?;
        objects.push((format!("{compiler} {level}"), file));
    }
    Ok(Twins { stub, objects })
}

/// The libraries that replace a device for the programs.
pub struct Stub {
    pub libibverbs: PathBuf,
    /// Preloaded library that counts allocations.
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

/// Builds the libibverbs for the programs.
pub fn stub() -> Result<Stub> {
    let out = paths::below_target("overhead/stub")?;
    let (libibverbs, preload) = (out.join("libibverbs.so.1"), out.join("preload.so"));
    let sh = sh::at(paths::workspace().join("benches/stub"));
    // Its file is excluded from the counts, so it must not use the C library's loops.
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
    cmd!(sh, "gcc {flags...} preload.c -o {preload}").step("Compiling the preloaded library")?;
    Ok(Stub { libibverbs, preload })
}

/// Compiles measured C to a shared object.
fn compile(compiler: &str, level: &str, files: &[String], out: &Path) -> Result<()> {
    let more: &[&str] = if compiler == "gcc" { &GCC } else { &[] };
    let sh = sh::at(paths::workspace().join("benches/c"));
    let flags = FLAGS.split(' ');
    cmd!(sh, "{compiler} {flags...} {level} {more...} {files...} -o {out}")
        .step(format!("Compiling measured C with {compiler} {level}"))
}

/// Builds the Rust forms: opt-level 3 in one codegen unit.
pub fn forms() -> Result<PathBuf> {
    cargo_measured("build", &[])?.step("Compiling the Rust forms")?;
    Ok(paths::below_target("overhead")?.join("release/proverbs-overhead"))
}

/// `cargo COMMAND` on the package of the Rust forms, with the options for measurements.
pub fn cargo_measured(command: &str, args: &[&str]) -> Result<Cmd<'static>> {
    let target = paths::below_target("overhead")?;
    let target = target.to_str().context("the target directory is not UTF-8")?;
    let line = [command, "--release", "--package", "proverbs-overhead", "--target-dir", target];
    let cmd = cargo::cargo(&[&line, args].concat())?;
    // Excludes the warnings and settings of the user's environment from the numbers.
    let cmd = cmd.env_remove("RUSTFLAGS").env_remove("CARGO_ENCODED_RUSTFLAGS");
    Ok(cmd.env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "1"))
}
