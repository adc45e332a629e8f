//! libclang for the build script of rdma-sys. Its bindgen reads verbs.h wrongly with libclang 16
//! and later, so this looks for an older one even when a newer one is installed.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::apt;
use crate::paths;
use crate::sh::{Cmd, quote};

/// Newest first; older than these the distributions have not had since 2020.
const VERSIONS: [u32; 5] = [15, 14, 13, 12, 11];
/// For distributions that only have newer ones: the library alone, from the Python package index.
const WHEEL: &str = "libclang==14.0.6";

/// Where libclang is, and where the compiler headers it needs are when not beside it.
pub struct Libclang {
    dir: PathBuf,
    headers: Option<PathBuf>,
}

impl Libclang {
    /// Environment for a `cargo` that builds rdma-sys.
    pub fn env(&self) -> Vec<(&'static str, OsString)> {
        let mut env = vec![("LIBCLANG_PATH", self.dir.clone().into())];
        if let Some(headers) = &self.headers {
            let mut args = OsString::from("-isystem");
            args.push(headers);
            env.push(("BINDGEN_EXTRA_CLANG_ARGS", args));
        }
        env
    }

    /// The same as a line for a shell.
    pub fn exports(&self) -> String {
        let pair =
            |(name, value): (&str, OsString)| format!("{name}={}", quote(&value).to_string_lossy());
        let pairs: Vec<String> = self.env().into_iter().map(pair).collect();
        format!("export {}", pairs.join(" "))
    }
}

/// Finds libclang or installs it.
pub fn ensure() -> Result<Libclang> {
    if let Some(dir) = env::var_os("LIBCLANG_PATH") {
        return Ok(Libclang { dir: dir.into(), headers: None });
    }
    if let Some(found) = installed() {
        return Ok(found);
    }
    if has_library(&wheel_dir()?) {
        return wheel();
    }
    let mut version = packaged();
    if version.is_none() {
        // Perhaps a fresh machine has no package lists yet. If they cannot be had, the wheel may.
        let refreshed = apt::refresh(&packages(VERSIONS[1]).join(" "));
        version = refreshed.ok().and_then(|()| packaged());
    }
    let Some(version) = version else {
        return fetch_wheel();
    };
    let [library, headers] = packages(version);
    apt::install_missing(&[&library, &headers])?;
    installed().with_context(|| {
        format!("libclang {version} is installed but not below /usr/lib/llvm-{version}/lib")
    })
}

fn packages(version: u32) -> [String; 2] {
    [format!("libclang1-{version}"), format!("libclang-{version}-dev")]
}

/// The newest version that apt can install.
fn packaged() -> Option<u32> {
    let can_install = |version: u32| packages(version).iter().all(|name| apt::has_candidate(name));
    VERSIONS.into_iter().find(|version| can_install(*version))
}

fn installed() -> Option<Libclang> {
    let dirs = VERSIONS.iter().map(|version| format!("/usr/lib/llvm-{version}/lib"));
    dirs.map(PathBuf::from)
        .find(|dir| has_library(dir) && has_headers(dir))
        .map(|dir| Libclang { dir, headers: None })
}

/// libclang.so* or libclang-14.so*, but not libclang-cpp.so, which is the C++ interface.
fn has_library(dir: &Path) -> bool {
    names(dir).any(|name| {
        name.strip_prefix("libclang").is_some_and(|rest| {
            rest.starts_with(".so")
                || rest
                    .strip_prefix('-')
                    .is_some_and(|v| v.starts_with(|c: char| c.is_ascii_digit()))
        })
    })
}

/// stddef.h and its kind come with libclang-N-dev, below a directory named after the version.
fn has_headers(dir: &Path) -> bool {
    let clang = dir.join("clang");
    names(&clang).any(|version| clang.join(version).join("include/stddef.h").exists())
}

fn names(dir: &Path) -> impl Iterator<Item = String> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok())
}

fn wheel_dir() -> Result<PathBuf> {
    Ok(paths::target()?.join("libclang/clang/native"))
}

fn fetch_wheel() -> Result<Libclang> {
    if !Cmd::new("python3").args(["-m", "pip", "--version"]).succeeds() {
        apt::install_missing(&["python3-pip"])?;
    }
    Cmd::new("python3")
        .args(["-m", "pip", "install", "--quiet", "--no-deps", "--upgrade", "--target"])
        .arg(paths::below_target("libclang")?)
        .arg(WHEEL)
        .hint("install any libclang up to 15 and name its directory in LIBCLANG_PATH")
        .run("Fetching libclang")?;
    wheel()
}

/// The wheel has no compiler headers; gcc's serve.
fn wheel() -> Result<Libclang> {
    let dir = wheel_dir()?;
    if !has_library(&dir) {
        bail!("{WHEEL} left no libclang.so in {}.\nNext: set LIBCLANG_PATH", dir.display());
    }
    let include =
        Cmd::new("gcc").arg("-print-file-name=include").hint("install gcc").read_text()?;
    Ok(Libclang { dir, headers: Some(include.trim().into()) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exports_can_be_pasted() {
        let headers = Some(PathBuf::from("/gcc/include"));
        let libclang = Libclang { dir: "/llvm/lib".into(), headers };
        let line = "export LIBCLANG_PATH=/llvm/lib BINDGEN_EXTRA_CLANG_ARGS=-isystem/gcc/include";
        assert_eq!(libclang.exports(), line);
    }
}
