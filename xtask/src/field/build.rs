//! What is measured: the stub libibverbs, and one program a crate.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::sh::Cmd;
use crate::{cargo, paths};

/// One way to build the programs.
pub struct Profile {
    name: &'static str,
    what: &'static str,
}

/// The first is what is compared; the second shows what inlining across crates gives to each.
pub const PROFILES: [Profile; 2] =
    [Profile { name: "release", what: "release" }, Profile { name: "lto", what: "fat LTO" }];

/// Crates that verbs programmers meet and that cannot be built today: tried again each time.
const WANTED: [(&str, &str); 2] = [("async-rdma", "=0.5.0"), ("safeverbs", "*")];

/// A crate that is not in the table.
#[derive(Serialize, Deserialize)]
pub struct Failed {
    pub krate: String,
    pub error: String,
}

impl Failed {
    pub fn of(krate: &str, error: &anyhow::Error) -> Self {
        let text = format!("{error:#}");
        let lines = text.lines().map(str::trim).skip_while(|line| !line.starts_with("error"));
        let lines = lines.map(|line| line.trim_start_matches("error:").trim());
        let error = lines
            .take(3)
            .take_while(|line| !line.starts_with("location"))
            .collect::<Vec<_>>()
            .join("; ");
        Failed { krate: krate.to_owned(), error }
    }
}

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
    names.sort_by_key(|name| (name != "c", name != "proverbs", name.clone()));
    Ok(names)
}

/// The compilers, and the crates that were measured.
pub fn versions() -> Result<Vec<String>> {
    let mut all = vec![version("rustc")?, version("gcc")?, version("valgrind")?];
    let lock = directory().join("Cargo.lock");
    let text = fs::read_to_string(&lock).with_context(|| format!("{}", lock.display()))?;
    let lock: toml::Table = toml::from_str(&text).context("Cargo.lock")?;
    let packages = lock.get("package").and_then(|list| list.as_array()).into_iter().flatten();
    let peers = peers()?;
    for package in packages {
        let field = |key: &str| package.get(key).and_then(|value| value.as_str());
        if let (Some(name), Some(version)) = (field("name"), field("version"))
            && peers.iter().any(|peer| peer == name)
        {
            all.push(format!("{name} {version}"));
        }
    }
    Ok(all)
}

fn version(program: &str) -> Result<String> {
    let text = Cmd::new(program).arg("--version").read_text()?;
    Ok(text.lines().next().unwrap_or_default().to_owned())
}

/// What the programs get in place of a device.
pub struct Stub {
    pub libibverbs: PathBuf,
    /// Loaded before all else: it counts allocations, and knows one file below /sys.
    preload: PathBuf,
}

impl Stub {
    /// The directory of both, whose instructions are left out.
    pub fn directory(&self) -> String {
        self.libibverbs.parent().map_or_else(String::new, |dir| dir.display().to_string())
    }

    /// Has `cmd` use it.
    pub fn for_command(&self, cmd: Cmd) -> Result<Cmd> {
        let dir = self.libibverbs.parent().context("the stub is in a directory")?;
        Ok(cmd.env("LD_PRELOAD", &self.preload).env("LD_LIBRARY_PATH", dir))
    }
}

/// Builds the libibverbs that the programs get.
pub fn stub() -> Result<Stub> {
    let sources = directory().join("stub");
    let out = paths::below_target("field/stub")?;
    let (libibverbs, preload) = (out.join("libibverbs.so.1"), out.join("preload.so"));
    let files = ["device", "objects", "extended", "missing", "allocations"];
    let map = format!("-Wl,--version-script={}", sources.join("libibverbs.map").display());
    let gcc = || {
        // Left out of the counts by its file, so it must not use the C library's loops.
        let no_calls = ["-fno-builtin", "-fno-tree-loop-distribute-patterns"];
        let flags = ["-std=gnu11", "-O2", "-Wall", "-Wextra", "-fPIC", "-shared"];
        Cmd::new("gcc").args(flags).args(no_calls)
    };
    gcc()
        .args(files.map(|file| sources.join(file).with_extension("c")))
        .arg(paths::workspace().join("benches/stub/stub.c"))
        .args(["-Dstub_measure=stub_measure_inner", "-Dstub_dump=stub_dump_inner"])
        .args([map.as_str(), "-Wl,-soname,libibverbs.so.1", "-Wl,--no-undefined", "-o"])
        .arg(&libibverbs)
        .run("Compiling the stub libibverbs")?;
    let preload_c = sources.join("preload.c");
    gcc().arg(preload_c).arg("-o").arg(&preload).run("Compiling what is loaded before it")?;
    Ok(Stub { libibverbs, preload })
}

/// Builds the program of one crate, or takes it as it was built last.
pub fn program(peer: &str, profile: &Profile, as_built: bool) -> Result<PathBuf> {
    let target = target()?;
    let package = format!("field-{peer}");
    let program = target.join(profile.name).join(&package);
    if as_built && program.exists() {
        return Ok(program);
    }
    let manifest = directory().join("Cargo.toml");
    cargo::cargo(&["build", "--profile", profile.name, "--package", &package])?
        .arg("--manifest-path")
        .arg(&manifest)
        .arg("--target-dir")
        .arg(&target)
        // Warnings and settings of the user's environment stay out of the numbers.
        .without("RUSTFLAGS")
        .without("CARGO_ENCODED_RUSTFLAGS")
        .run(format!("Compiling the program of {peer}, {}", profile.what))?;
    Ok(program)
}

fn target() -> Result<PathBuf> {
    paths::below_target("field")
}

/// Tries the crates that could not be built when this was written.
pub fn cannot_be_built() -> Result<Vec<Failed>> {
    let mut failed = Vec::new();
    for (krate, version) in WANTED {
        let dir = paths::below_target(&format!("field/tried/{krate}"))?;
        if let Err(error) = try_crate(&dir, krate, version) {
            failed.push(Failed::of(krate, &error));
        } else {
            eprintln!(
                "note: {krate} can be built now; it deserves a program in benches/field/peers"
            );
        }
    }
    Ok(failed)
}

fn try_crate(dir: &Path, krate: &str, version: &str) -> Result<()> {
    let manifest = format!(
        "[package]\nname = \"tried\"\nedition = \"2024\"\n\n[workspace]\n\n[dependencies]\n{krate} = \"{version}\"\n"
    );
    fs::create_dir_all(dir.join("src"))?;
    fs::write(dir.join("src/main.rs"), "fn main() {}\n")?;
    fs::write(dir.join("Cargo.toml"), manifest)?;
    let manifest = dir.join("Cargo.toml");
    let what = format!("Trying {krate} {version}");
    cargo::cargo(&["check", "--manifest-path"])?
        .arg(&manifest)
        .arg("--target-dir")
        .arg(target()?)
        .run(what)
}
