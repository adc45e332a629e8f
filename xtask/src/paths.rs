//! The paths of files and directories.

use std::path::{Path, PathBuf};
use std::{env, fs};

use anyhow::{Context, Result};

use crate::sh::{self, Run, cmd};

/// The root of the workspace.
pub fn workspace() -> PathBuf {
    // Cargo sets the variable when it runs xtask. The constant is for a copied binary.
    let manifest = env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    manifest.parent().map_or(manifest.clone(), Path::to_owned)
}

/// Cargo's target directory. It contains everything that xtask creates, so that `cargo clean`
/// removes it.
pub fn target() -> Result<PathBuf> {
    let target = match env::var_os("CARGO_TARGET_DIR") {
        Some(dir) => env::current_dir()?.join(dir),
        None => workspace().join("target"),
    };
    directory(target)
}

/// `target/NAME`, created if it does not exist.
pub fn below_target(name: &str) -> Result<PathBuf> {
    directory(target()?.join(name))
}

/// Creates a directory and returns its path.
pub fn directory(path: PathBuf) -> Result<PathBuf> {
    fs::create_dir_all(&path).with_context(|| format!("cannot make {}", path.display()))?;
    Ok(path)
}

/// The names in a directory; empty if it cannot be read.
pub fn names(dir: &Path) -> impl Iterator<Item = String> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok())
}

/// Copies the crates to `dir`, without the rest of the workspace, so that the project can be edited
/// while the copy is used.
pub fn copy_crates(dir: &Path) -> Result<()> {
    let root = workspace();
    let _ = fs::remove_dir_all(dir);
    directory(dir.to_owned())?;
    let folders = ["src", "sys", "loopback", "macros", "tests", "ui-tests", "benches", "examples"];
    cmd!(sh::at(&root), "cp -r {folders...} README.md RULES.md Cargo.lock {dir}").bytes()?;
    let manifest = fs::read_to_string(root.join("Cargo.toml"))?;
    let lines = manifest.lines().map(|line| match line.split_once(" = ") {
        Some(("members", _)) => "members = [\".\", \"sys\", \"loopback\", \"macros\"]",
        Some(("default-members", _)) => "default-members = [\".\"]",
        _ => line,
    });
    let text: String = lines.flat_map(|line| [line.trim_end(), "\n"]).collect();
    fs::write(dir.join("Cargo.toml"), text).context("cannot write the copy's Cargo.toml")
}
