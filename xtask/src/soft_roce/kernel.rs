//! Stock kernels, which are unpacked and never installed. They are fetched once and kept until
//! `cargo clean`, so that later runs do not need the network or package lists.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::apt::{self, Lists};
use crate::paths;
use crate::sh::{self, Run, cmd};

/// The kernels that the suites run on. The first is the default of a guest; the last is the newest
/// in trixie-backports.
pub const NAMED: [&str; 3] = ["6.1", "6.12", "7.3"];
/// The name of their packages in Debian.
pub const SUITES: [&str; 5] =
    ["bookworm", "bookworm-security", "trixie", "trixie-backports", "sid"];
/// The suffix of releases.
const FLAVOUR: &str = "-amd64";
/// A part before the suffix that marks another flavour.
const OTHERS: [&str; 2] = ["-cloud", "-rt"];

/// A kernel on this disk.
#[derive(Debug)]
pub struct Kernel {
    pub release: String,
    /// The directory above lib/modules.
    pub root: PathBuf,
    /// The file that QEMU boots.
    pub image: PathBuf,
}

/// The newest cached kernel with this name (6.1 is 6.1.x), fetched if there is none. If the archive
/// no longer has it, the next newer one.
pub fn ensure(name: &str) -> Result<Kernel> {
    if std::env::consts::ARCH != "x86_64" {
        bail!("the guest needs the host's programs and an x86-64 kernel; this is another machine");
    }
    let cache = paths::below_target("soft-roce/kernel")?;
    let release = match newest(paths::names(&cache).collect(), name) {
        Some(release) => release,
        None => fetch(name, &cache)?,
    };
    let root = cache.join(&release);
    let image = image(&root, &release);
    Ok(Kernel { release, root, image })
}

/// The newest of these releases with this name.
fn newest(releases: Vec<String>, name: &str) -> Option<String> {
    let named = releases.into_iter().filter(|release| numbers(release).starts_with(&numbers(name)));
    named.max_by_key(|release| numbers(release))
}

/// The newest release with the next newer name.
fn next(releases: &[String], name: &str) -> Option<String> {
    let newer = releases.iter().filter(|release| numbers(release) > numbers(name));
    let next = newer.min_by_key(|release| numbers(release))?;
    let name: Vec<String> = numbers(next).iter().take(2).map(u64::to_string).collect();
    newest(releases.to_vec(), &name.join("."))
}

/// 6.1.0-9 comes before 6.1.0-56.
fn numbers(release: &str) -> Vec<u64> {
    release.split(|c: char| !c.is_ascii_digit()).filter_map(|part| part.parse().ok()).collect()
}

/// Its location in packages: in Debian's, from 6.19 on, below the modules.
fn image(root: &Path, release: &str) -> PathBuf {
    let image = root.join(format!("boot/vmlinuz-{release}"));
    if image.exists() { image } else { root.join(format!("lib/modules/{release}/vmlinuz")) }
}

/// Fetches the newest kernel with this name, or its replacement. Returns its release.
fn fetch(name: &str, cache: &Path) -> Result<String> {
    let lists = debian()?;
    let all = releases(&lists)?;
    let release = newest(all.clone(), name).or_else(|| {
        let next = next(&all, name)?;
        eprintln!("note: Linux {name} is no longer available; using {next}");
        Some(next)
    });
    let release = release
        .with_context(|| format!("Debian has neither Linux {name} nor a newer one: {all:?}"))?;
    apt::once(&cache.join(&release), |work, root| unpack(&lists, &release, work, root))?;
    Ok(release)
}

/// The lists of Debian's suites. They are separate, because two parts of the tests may fetch them
/// at the same time, and apt does not wait for its lock on lists.
pub fn debian() -> Result<Lists> {
    Lists::fetched(&apt::aside(paths::below_target("soft-roce/apt")?)?, &SUITES)
}

/// The available kernels.
fn releases(lists: &Lists) -> Result<Vec<String>> {
    let names = lists.names("linux-image-")?;
    let release = |name: &String| {
        let release = name.strip_prefix("linux-image-")?;
        let is_one = release.starts_with(|c: char| c.is_ascii_digit());
        let version = release.strip_suffix(FLAVOUR)?;
        let is_other = OTHERS.iter().any(|other| version.ends_with(other));
        (is_one && !is_other).then(|| release.to_owned())
    };
    Ok(names.iter().filter_map(release).collect())
}

/// Unpacks and prepares a kernel in `root`.
fn unpack(lists: &Lists, release: &str, work: &Path, root: &Path) -> Result<()> {
    // In older Debian releases the image's package contains everything. From 6.19 on, parts are in
    // other packages.
    let all = lists.names("linux-")?;
    let parts = ["image", "base", "binary", "modules"];
    let packages = parts.map(|part| format!("linux-{part}-{release}"));
    let packages: Vec<&String> = packages.iter().filter(|name| all.contains(name)).collect();
    lists.unpack(&packages, work, root)?;
    // Newer packages use usr/lib, but modprobe -d and depmod -b search below lib.
    if !root.join("lib").exists() {
        std::os::unix::fs::symlink("usr/lib", root.join("lib"))?;
    }
    cmd!(sh::here(), "depmod -b {root} {release}").step("Listing its modules")
}

#[cfg(test)]
mod tests {
    use super::*;

    const RELEASES: [&str; 4] =
        ["6.1.0-9-amd64", "6.1.0-56-amd64", "6.12.94+deb13-amd64", "6.12.107+deb13-amd64"];

    fn all() -> Vec<String> {
        RELEASES.map(str::to_owned).to_vec()
    }

    #[test]
    fn the_newest_of_a_name_is_taken() {
        assert_eq!(newest(all(), "6.1").as_deref(), Some(RELEASES[1]));
        assert_eq!(newest(all(), "6.12").as_deref(), Some(RELEASES[3]));
        assert_eq!(newest(all(), "6"), newest(all(), "6.12"));
        assert_eq!(newest(all(), "7.3"), None);
    }

    #[test]
    fn the_next_takes_the_place_of_one_that_is_gone() {
        assert_eq!(next(&all(), "6.2").as_deref(), Some(RELEASES[3]));
        assert_eq!(next(&all(), "5.10").as_deref(), Some(RELEASES[1]));
        assert_eq!(next(&all(), "7.3"), None);
    }
}
