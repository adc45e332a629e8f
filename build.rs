//! Finds what the build needs, or says in a line what to install.
//!
//! With the feature `rdma-sys` (a default) that crate generates the bindings from the installed headers, with a bindgen that
//! panics with libclang 16 and later. Build scripts wait for nobody but their own dependencies, so this one can run while
//! that bindgen is being compiled. Cargo prefers what others wait for, though: where there are two processors or fewer, the
//! first build may show bindgen's page, and only the next one this line. Without the feature the bindings are our own, and only the libraries are needed.
//! `PROVERBS_NO_PROBE=1` turns this off.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What pkg-config calls a library, the oldest version that rdma-sys takes, and its file.
const LIBRARIES: [(&str, &str, &str); 2] =
    [("libibverbs", "1.8.28", "libibverbs.so"), ("librdmacm", "1.2.28", "librdmacm.so")];

/// The newest that rdma-sys's bindgen reads the headers rightly with.
const LIBCLANG: u32 = 15;

const INSTALL: &str = "sudo apt install libibverbs-dev librdmacm-dev pkg-config   (Fedora, RHEL: sudo dnf install \
                       rdma-core-devel pkgconf; elsewhere: the development files of rdma-core)";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    for name in
        ["PROVERBS_NO_PROBE", "PKG_CONFIG", "PKG_CONFIG_PATH", "LIBRARY_PATH", "LIBCLANG_PATH"]
    {
        println!("cargo::rerun-if-env-changed={name}");
    }
    let is_set = |name: &str| env::var_os(name).is_some();
    // docs.rs links nothing, and for another machine only its linker knows.
    let elsewhere = env::var_os("HOST") != env::var_os("TARGET");
    if is_set("PROVERBS_NO_PROBE") || is_set("DOCS_RS") || elsewhere {
        return;
    }
    let result = match is_set("CARGO_FEATURE_RDMA_SYS") {
        true => headers().and_then(|()| libclang()),
        false => libraries(),
    };
    if let Err(error) = result {
        println!("cargo::error={error}");
    }
}

/// What rdma-sys's build script asks pkg-config for.
fn headers() -> Result<(), String> {
    for (package, version, _) in LIBRARIES {
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

/// What the linker needs, when the bindings are our own.
fn libraries() -> Result<(), String> {
    for (package, _, library) in LIBRARIES {
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
