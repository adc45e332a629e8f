//! Looks for what rdma-sys needs, or says in a line what to install.
//!
//! That crate generates its bindings from the installed headers, with a bindgen that panics with libclang 16 and later, a
//! page long. Cargo has no way to say that a build script runs before another crate's, but it starts first what most others
//! wait for. For this one wait its library, the build script of proverbs (by `links`) and proverbs; for that of rdma-sys
//! wait its library and proverbs. So this one runs first, however many processors there are.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What pkg-config calls a library, and the oldest version that rdma-sys takes.
const LIBRARIES: [(&str, &str); 2] = [("libibverbs", "1.8.28"), ("librdmacm", "1.2.28")];

/// The newest that rdma-sys's bindgen reads the headers rightly with.
const LIBCLANG: u32 = 15;

const INSTALL: &str = "sudo apt install libibverbs-dev librdmacm-dev pkg-config   (Fedora, RHEL: sudo dnf install \
                       rdma-core-devel pkgconf; elsewhere: the development files of rdma-core)";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    for name in ["PROVERBS_NO_PROBE", "PKG_CONFIG", "PKG_CONFIG_PATH", "LIBCLANG_PATH"] {
        println!("cargo::rerun-if-env-changed={name}");
    }
    let is_set = |name: &str| env::var_os(name).is_some();
    // For another machine only its own pkg-config knows.
    let elsewhere = env::var_os("HOST") != env::var_os("TARGET");
    if is_set("PROVERBS_NO_PROBE") || is_set("DOCS_RS") || elsewhere {
        return;
    }
    if let Err(error) = headers().and_then(|()| libclang()) {
        println!("cargo::error={error}");
    }
}

/// What rdma-sys's build script asks pkg-config for.
fn headers() -> Result<(), String> {
    for (package, version) in LIBRARIES {
        let wanted = format!("{package} >= {version}");
        let asked = pkg_config().args(["--print-errors", "--exists", &wanted]).output();
        let why = match asked {
            Ok(output) if output.status.success() => continue,
            Ok(_) => format!("pkg-config finds no {wanted}, whose headers rdma-sys reads"),
            Err(error) => {
                format!("pkg-config, which rdma-sys asks for {package}, does not run ({error})")
            }
        };
        return Err(format!("{why}. Next: {INSTALL}"));
    }
    Ok(())
}

/// As clang-sys has it: the newest that is where `LIBCLANG_PATH` says, else where libraries are.
fn libclang() -> Result<(), String> {
    const OR: &str =
        "or build with `--no-default-features --features loopback`, which needs no libclang";
    let dirs = match env::var_os("LIBCLANG_PATH") {
        Some(path) => vec![path.into()],
        None => {
            let below = std::fs::read_dir("/usr/lib").into_iter().flatten().flatten();
            let llvm = below.map(|entry| entry.path().join("lib"));
            llvm.chain(usual()).collect::<Vec<PathBuf>>()
        }
    };
    let newest = dirs.iter().flat_map(|dir| versions(dir)).max();
    match newest {
        None => Err(format!(
            "there is no libclang, with which rdma-sys reads the RDMA headers. Next: sudo apt install libclang-14-dev, {OR}"
        )),
        Some(version) if version > LIBCLANG => Err(format!(
            "rdma-sys's bindgen panics with libclang {version}: it needs {LIBCLANG} or older. Next: sudo apt install \
             libclang-{LIBCLANG}-dev && export LIBCLANG_PATH=/usr/lib/llvm-{LIBCLANG}/lib, {OR}"
        )),
        Some(_) => Ok(()),
    }
}

/// The versions of the libclangs in a directory (or of one file), 0 for one that does not say.
fn versions(at: &Path) -> Vec<u32> {
    let within = std::fs::read_dir(at).into_iter().flatten().flatten().map(|entry| entry.path());
    let files = within.chain([at.to_owned()]);
    files
        .filter_map(|file| {
            let rest = file.file_name()?.to_str()?.strip_prefix("libclang")?;
            let is_library =
                rest.starts_with(".so") || (rest.starts_with('-') && rest.contains(".so"));
            // libclang-cpp.so is the C++ interface.
            if !is_library || rest.starts_with("-cpp") {
                return None;
            }
            // Links lead to a name with the version in it.
            let whole = file.canonicalize().ok()?;
            let name = whole.file_name()?.to_str()?;
            let digits = name.trim_start_matches(|c: char| !c.is_ascii_digit());
            let digits = digits.split(|c: char| !c.is_ascii_digit()).next()?;
            Some(digits.parse().unwrap_or(0))
        })
        .collect()
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
