//! Stock kernels by their names, unpacked and never installed. Fetched once; kept until `cargo
//! clean`, so that later runs need neither network nor package lists.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::vmlinux;
use crate::apt::{self, Lists};
use crate::sh::{self, Run, cmd};
use crate::{paths, setup};

/// The kernels that the suites run on. The first is what a guest has if nobody says otherwise; the
/// last is the newest of trixie-backports.
pub const NAMED: [&str; 3] = ["6.1", "6.12", "7.3"];
/// Where Debian has them.
pub const SUITES: [&str; 4] = ["bookworm", "trixie", "trixie-backports", "sid"];
/// How releases end: Debian's, Ubuntu's.
const FLAVOURS: [&str; 2] = ["-amd64", "-generic"];
/// What may come before that, and is another flavour.
const OTHERS: [&str; 2] = ["-cloud", "-rt"];

/// A third of the modules by size, and none of use to a guest without hardware.
const UNUSED_MODULES: [&str; 6] = [
    "kernel/drivers/gpu",
    "kernel/drivers/iio",
    "kernel/drivers/media",
    "kernel/drivers/staging",
    "kernel/drivers/scsi",
    "kernel/sound",
];

/// A kernel on this disk.
#[derive(Debug)]
pub struct Kernel {
    pub release: String,
    /// The directory above lib/modules.
    pub root: PathBuf,
    /// What QEMU boots.
    pub image: PathBuf,
}

/// The newest cached kernel of this name (6.1 is 6.1.x), fetched if there is none. If the archive
/// has none any more, the next newer one.
pub fn ensure(name: &str) -> Result<Kernel> {
    if std::env::consts::ARCH != "x86_64" {
        bail!("the guest needs the host's programs and an x86-64 kernel; this is another machine");
    }
    let cache = paths::below_target("soft-roce/kernel")?;
    let release = match newest(directories(&cache)?, name) {
        Some(release) => release,
        None => fetch(name, &cache)?,
    };
    let root = cache.join(&release);
    let plain = root.join(vmlinux::NAME);
    let image = if plain.exists() { plain } else { packed_image(&root, &release) };
    Ok(Kernel { release, root, image })
}

fn directories(cache: &Path) -> Result<Vec<String>> {
    let entries =
        fs::read_dir(cache).with_context(|| format!("cannot read {}", cache.display()))?;
    Ok(entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect())
}

/// The newest of these releases that has this name.
fn newest(releases: Vec<String>, name: &str) -> Option<String> {
    let named = releases.into_iter().filter(|release| numbers(release).starts_with(&numbers(name)));
    named.max_by_key(|release| numbers(release))
}

/// The newest release of the name that comes next.
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

/// Where packages have it: Debian's from 6.19 on below the modules.
fn packed_image(root: &Path, release: &str) -> PathBuf {
    let image = root.join(format!("boot/vmlinuz-{release}"));
    if image.exists() { image } else { root.join(format!("lib/modules/{release}/vmlinuz")) }
}

/// Fetches the newest kernel of this name, or what comes in its place; its release.
fn fetch(name: &str, cache: &Path) -> Result<String> {
    let system = Lists::system();
    let mut here = releases(&system)?;
    if here.is_empty() {
        setup::refresh_package_lists()?;
        here = releases(&system)?;
    }
    let (lists, release) = match newest(here.clone(), name) {
        Some(release) => (system, release),
        None => elsewhere(name, system, here)?,
    };
    apt::once(&cache.join(&release), |work, root| unpack(&lists, &release, work, root))?;
    Ok(release)
}

/// A kernel that is in none of the system's suites, or the one that comes next.
fn elsewhere(name: &str, system: Lists, here: Vec<String>) -> Result<(Lists, String)> {
    // Where there is no archive of Debian's among the system's sources, its own kernels are left.
    let debian = debian().and_then(|lists| Ok((releases(&lists)?, lists)));
    let (there, debian) = match debian {
        Ok((there, lists)) => (there, Some(lists)),
        Err(error) => {
            eprintln!("note: no kernels of other suites: {error:#}");
            (Vec::new(), None)
        }
    };
    let last = newest(there.clone(), "").filter(|_| NAMED.last() == Some(&name));
    if let Some(last) = last.filter(|last| !numbers(last).starts_with(&numbers(name))) {
        eprintln!("note: there is Linux {last}, which is newer than {name}, the newest named here");
    }
    let all = [here.clone(), there.clone()].concat();
    let found = newest(there.clone(), name).or_else(|| {
        let next = next(&all, name)?;
        eprintln!("note: there is no Linux {name} any more; {next} takes its place");
        Some(next)
    });
    let release = found.with_context(|| {
        format!(
            "there is neither Linux {name} nor a newer one.\n\
             Next: add Debian's archive to apt's sources"
        )
    })?;
    let lists = debian.filter(|_| there.contains(&release)).unwrap_or(system);
    Ok((lists, release))
}

/// Debian's suites, whose lists are fetched; apart, as two parts of the tests may do so at a time,
/// and apt does not wait for its own lock on them.
pub fn debian() -> Result<Lists> {
    Lists::fetched(&apt::aside(paths::below_target("soft-roce/apt")?)?, &SUITES)
}

/// The kernels that there are.
fn releases(lists: &Lists) -> Result<Vec<String>> {
    let names = lists.names("linux-image-")?;
    let release = |name: &String| {
        let release = name.strip_prefix("linux-image-")?;
        let is_one = release.starts_with(|c: char| c.is_ascii_digit());
        let version = FLAVOURS.iter().find_map(|flavour| release.strip_suffix(flavour))?;
        let is_other = OTHERS.iter().any(|other| version.ends_with(other));
        (is_one && !is_other).then(|| release.to_owned())
    };
    Ok(names.iter().filter_map(release).collect())
}

/// Unpacks and prepares a kernel in `root`.
fn unpack(lists: &Lists, release: &str, work: &Path, root: &Path) -> Result<()> {
    // Older Debians have everything in the image's package; Ubuntu has the modules in two others,
    // and Debian from 6.19 on both in others.
    let all = lists.names("linux-")?;
    let parts = ["image", "base", "binary", "modules", "modules-extra"];
    let packages = parts.map(|part| format!("linux-{part}-{release}"));
    let packages: Vec<&String> = packages.iter().filter(|name| all.contains(name)).collect();
    lists.unpack(&packages, work, root)?;
    // Newer packages say usr/lib; modprobe -d and depmod -b look below lib.
    if !root.join("lib").exists() {
        std::os::unix::fs::symlink("usr/lib", root.join("lib"))?;
    }
    let modules = root.join("lib/modules").join(release);
    for unused in UNUSED_MODULES.map(|path| modules.join(path)) {
        if unused.exists() {
            fs::remove_dir_all(unused)?;
        }
    }
    cmd!(sh::here(), "depmod -b {root} {release}").step("Listing its modules")?;
    vmlinux::extract(&packed_image(root, release), root)
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
