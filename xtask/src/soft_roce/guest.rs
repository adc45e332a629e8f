//! Passes the environment and the command to the guest, as files on the share.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::kernel::Kernel;
use crate::paths;
use crate::sh::quote;

const SCRIPT: &str = include_str!("guest.sh");
/// Directories that the guest does not take from the host.
const NOT_SHARED: [&str; 4] = ["/dev", "/proc", "/run", "/sys"];

/// The directory that guest and host share for writing, with the same path in both.
pub fn out_dir() -> Result<PathBuf> {
    match env::var_os("PROVERBS_GUEST_OUT") {
        Some(dir) => paths::directory(env::current_dir()?.join(dir)),
        None => paths::below_target("soft-roce/out"),
    }
}

/// Writes the files that init.sh and guest.sh read.
pub fn write(
    share: &Path,
    kernel: &Kernel,
    siw: Option<&Path>,
    out: &Path,
    command: &[&OsStr],
    host: Option<u8>,
) -> Result<()> {
    let files = [
        ("guest.sh", OsString::from(SCRIPT)),
        ("env.sh", environment(kernel, siw, out, host)),
        ("command.sh", script(command)?),
    ];
    for (name, content) in files {
        let path = share.join(name);
        fs::write(&path, content.as_bytes())
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

fn environment(kernel: &Kernel, siw: Option<&Path>, out: &Path, host: Option<u8>) -> OsString {
    let mut script = OsString::new();
    let mut line = |prefix: &str, name: &OsStr, value: &OsStr| {
        script.push(prefix);
        script.push(name);
        script.push("=");
        script.push(quote(value));
        script.push("\n");
    };
    let ours = |name: &'static str| OsStr::new(name);
    line("", ours("soft_roce_kernel"), kernel.root.as_os_str());
    let siw = siw.map_or(OsStr::new(""), Path::as_os_str);
    line("", ours("soft_roce_siw"), siw);
    let host = host.map_or_else(String::new, |host| host.to_string());
    line("", ours("soft_roce_host"), host.as_ref());
    for (name, value) in env::vars_os().filter(|(name, _)| is_passed_on(name)) {
        line("export ", &name, &value);
    }
    let mut path = env::var_os("PATH").unwrap_or_default();
    path.push(":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
    line("export ", ours("PATH"), &path);
    line("export ", ours("PROVERBS_GUEST_OUT"), out.as_os_str());
    script
}

/// The environment for a program under test, without cargo's variables about xtask itself, and
/// without secrets, because the share is a file on disk.
fn is_passed_on(name: &OsStr) -> bool {
    const NAMES: [&str; 7] = ["HOME", "LANG", "LOGNAME", "SHELL", "TERM", "TZ", "USER"];
    const PREFIXES: [&str; 5] = ["PROVERBS_", "RUST_", "RUSTUP_", "CARGO_", "LC_"];
    const ABOUT_XTASK: [&str; 4] = ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_", "CARGO_CRATE_"];
    let Some(name) = name.to_str() else {
        return false;
    };
    let starts = |prefixes: &[&str]| prefixes.iter().any(|prefix| name.starts_with(prefix));
    let is_secret = name.ends_with("TOKEN") || name.contains("CREDENTIAL");
    // A name that no shell can export.
    let is_word = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    is_word && !is_secret && (NAMES.contains(&name) || starts(&PREFIXES) && !starts(&ABOUT_XTASK))
}

fn script(command: &[&OsStr]) -> Result<OsString> {
    let cwd = env::current_dir().context("where are we?")?;
    if NOT_SHARED.iter().any(|dir| cwd.starts_with(dir)) {
        bail!(
            "the guest has its own {}, so it cannot use {}.\nNext: cd to another directory",
            NOT_SHARED.join(", "),
            cwd.display()
        );
    }
    let mut script = b"cd ".to_vec();
    script.extend_from_slice(quote(cwd.as_os_str()).as_bytes());
    script.extend_from_slice(b" || exit 126\n");
    script.extend_from_slice(b"exec");
    for word in command {
        script.push(b' ');
        script.extend_from_slice(quote(word).as_bytes());
    }
    script.push(b'\n');
    Ok(OsString::from_vec(script))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sh::{self, Run, cmd};

    #[test]
    fn environment_is_chosen() {
        let passed = |name: &str| is_passed_on(name.as_ref());
        for name in ["RUST_BACKTRACE", "PROVERBS_X", "CARGO_TARGET_DIR", "HOME", "CARGO_HOME"] {
            assert!(passed(name), "{name}");
        }
        for name in ["CARGO_REGISTRY_TOKEN", "CARGO_PKG_NAME", "RUST_A.B", "OTHER", "PATH"] {
            assert!(!passed(name), "{name}");
        }
    }

    #[test]
    fn words_reach_the_command_as_they_are() {
        let words = ["printf", "%s", "a 'b' $c"].map(OsStr::new);
        let script = script(&words).expect("the tests' directory is shared");
        let run = cmd!(sh::here(), "sh -c {script}").text();
        assert_eq!(run.expect("sh runs"), "a 'b' $c");
    }
}
