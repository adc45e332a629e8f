//! Finds the libraries that the crate's own bindings link to, or says in a line what to install.
//!
//! With the feature `rdma-sys` (a default) that crate finds them, and the crate proverbs-probe has looked before what it
//! needs. `PROVERBS_NO_PROBE=1` turns both off.
//!
//! This runs after the build script of proverbs-probe, whose `links` it waits for: see there.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What pkg-config calls a library, and its file.
const LIBRARIES: [(&str, &str); 2] =
    [("libibverbs", "libibverbs.so"), ("librdmacm", "librdmacm.so")];

const INSTALL: &str = "sudo apt install libibverbs-dev librdmacm-dev pkg-config   (Fedora, RHEL: sudo dnf install \
                       rdma-core-devel pkgconf; elsewhere: the development files of rdma-core)";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    for name in ["PROVERBS_NO_PROBE", "PKG_CONFIG", "PKG_CONFIG_PATH", "LIBRARY_PATH"] {
        println!("cargo::rerun-if-env-changed={name}");
    }
    let is_set = |name: &str| env::var_os(name).is_some();
    // docs.rs links nothing, and for another machine only its linker knows.
    let elsewhere = env::var_os("HOST") != env::var_os("TARGET");
    let is_found = is_set("CARGO_FEATURE_RDMA_SYS");
    if is_found || is_set("PROVERBS_NO_PROBE") || is_set("DOCS_RS") || elsewhere {
        return;
    }
    if let Err(error) = libraries() {
        println!("cargo::error={error}");
    }
}

/// What the linker needs, when the bindings are our own.
fn libraries() -> Result<(), String> {
    for (package, library) in LIBRARIES {
        match find(package, library) {
            // The linker looks there anyway, or must be told.
            Some(dir) if usual().contains(&dir) => {}
            Some(dir) => println!("cargo::rustc-link-search=native={}", dir.display()),
            None => {
                return Err(format!(
                    "there is no {library}, which proverbs links to. Next: {INSTALL}"
                ));
            }
        }
    }
    Ok(())
}

/// The directory of a library: as pkg-config has it, else where libraries are.
fn find(package: &str, library: &str) -> Option<PathBuf> {
    let asked = pkg_config().args(["--variable=libdir", package]).output().ok();
    let told = asked.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    let listed = env::var_os("LIBRARY_PATH").unwrap_or_default();
    let mut dirs: Vec<PathBuf> =
        told.filter(|dir| !dir.is_empty()).map(PathBuf::from).into_iter().collect();
    dirs.extend(env::split_paths(&listed).filter(|dir| !dir.as_os_str().is_empty()));
    dirs.extend(usual());
    dirs.into_iter().find(|dir| dir.join(library).exists())
}

fn pkg_config() -> Command {
    Command::new(env::var_os("PKG_CONFIG").unwrap_or("pkg-config".into()))
}

fn usual() -> Vec<PathBuf> {
    let arch = env::var("CARGO_CFG_TARGET_ARCH").unwrap_or_default();
    let triplet = format!("{arch}-linux-gnu");
    ["/usr/lib", "/lib", "/usr/local/lib"]
        .into_iter()
        .flat_map(|dir| [Path::new(dir).join(&triplet), format!("{dir}64").into(), dir.into()])
        .collect()
}
