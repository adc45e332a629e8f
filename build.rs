//! Finds the two C libraries, or says in a line what to install.
//!
//! Bindings need nothing at build time, so only the linker would notice that a library is missing, at the very end and
//! in words of its own. `PROVERBS_NO_PROBE=1` turns this off. With the feature `rdma-sys` that crate finds the libraries.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

const LIBRARIES: [(&str, &str); 2] =
    [("libibverbs", "libibverbs.so"), ("librdmacm", "librdmacm.so")];

const INSTALL: &str = "sudo apt install libibverbs-dev librdmacm-dev   (Fedora, RHEL: sudo dnf install rdma-core-devel; \
                       elsewhere: the development files of rdma-core)";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    for name in ["PROVERBS_NO_PROBE", "PKG_CONFIG_PATH", "LIBRARY_PATH"] {
        println!("cargo::rerun-if-env-changed={name}");
    }
    let is_set = |name: &str| env::var_os(name).is_some();
    // docs.rs links nothing, and for another machine only its linker knows.
    let elsewhere = env::var_os("HOST") != env::var_os("TARGET");
    if ["PROVERBS_NO_PROBE", "DOCS_RS", "CARGO_FEATURE_RDMA_SYS"].into_iter().any(is_set)
        || elsewhere
    {
        return;
    }
    for (package, library) in LIBRARIES {
        match find(package, library) {
            Some(dir) => {
                // The linker looks there anyway, or must be told.
                if !is_usual(&dir) {
                    println!("cargo::rustc-link-search=native={}", dir.display());
                }
            }
            None => {
                println!(
                    "cargo::error=there is no {library}, which proverbs links to. Next: {INSTALL}"
                );
                return;
            }
        }
    }
}

/// The directory of a library: as pkg-config has it, else where libraries are.
fn find(package: &str, library: &str) -> Option<PathBuf> {
    let program = env::var_os("PKG_CONFIG").unwrap_or("pkg-config".into());
    let asked = Command::new(program).args(["--variable=libdir", package]).output().ok();
    let told = asked.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    let listed = env::var_os("LIBRARY_PATH").unwrap_or_default();
    let mut dirs: Vec<PathBuf> =
        told.filter(|dir| !dir.is_empty()).map(PathBuf::from).into_iter().collect();
    dirs.extend(env::split_paths(&listed).filter(|dir| !dir.as_os_str().is_empty()));
    dirs.extend(usual());
    dirs.into_iter().find(|dir| dir.join(library).exists())
}

fn usual() -> Vec<PathBuf> {
    let arch = env::var("CARGO_CFG_TARGET_ARCH").unwrap_or_default();
    let triplet = format!("{arch}-linux-gnu");
    ["/usr/lib", "/lib", "/usr/local/lib"]
        .into_iter()
        .flat_map(|dir| [Path::new(dir).join(&triplet), format!("{dir}64").into(), dir.into()])
        .collect()
}

fn is_usual(dir: &Path) -> bool {
    usual().iter().any(|usual| usual == dir)
}
