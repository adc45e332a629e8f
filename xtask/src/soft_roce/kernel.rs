//! The distribution's stock kernel, unpacked and never installed. Fetched once; it is kept until
//! `cargo clean`, so that later runs need neither network nor package lists.

use std::fs;
use std::path::{Path, PathBuf};
use std::process;

use anyhow::{Context, Result, bail};

use super::vmlinux;
use crate::sh::{self, Next, Run, cmd};
use crate::{paths, setup};

/// Packages that depend on the current kernel: Debian's, Ubuntu's.
const META_PACKAGES: [&str; 2] = ["linux-image-amd64", "linux-image-generic"];
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

/// The cached kernel, fetched if there is none.
pub fn ensure() -> Result<Kernel> {
    if std::env::consts::ARCH != "x86_64" {
        bail!("the guest needs the host's programs and an x86-64 kernel; this is another machine");
    }
    let cache = paths::below_target("soft-roce/kernel")?;
    if let Some(kernel) = cached(&cache)? {
        return Ok(kernel);
    }
    let release = latest_release()?;
    // Half a download must never look like a kernel: work aside, then rename.
    let work = paths::directory(cache.join(format!("tmp.{}", process::id())))?;
    let result = fetch(&release, &work, &cache.join(&release));
    fs::remove_dir_all(&work).with_context(|| format!("cannot remove {}", work.display()))?;
    result?;
    cached(&cache)?.context("the kernel was fetched, but is not in the cache")
}

/// The newest complete kernel of the cache.
fn cached(cache: &Path) -> Result<Option<Kernel>> {
    let mut found: Vec<Kernel> = Vec::new();
    for entry in fs::read_dir(cache).with_context(|| format!("cannot read {}", cache.display()))? {
        let entry = entry?;
        let Ok(release) = entry.file_name().into_string() else {
            continue;
        };
        if let Some(pid) = release.strip_prefix("tmp.") {
            // Left behind by a run that was killed.
            if !Path::new("/proc").join(pid).exists() {
                fs::remove_dir_all(entry.path())?;
            }
            continue;
        }
        let root = entry.path();
        let plain = root.join(vmlinux::NAME);
        let image = if plain.exists() { plain } else { packed_image(&root, &release) };
        found.push(Kernel { release, root, image });
    }
    Ok(found.into_iter().max_by_key(|kernel| numbers(&kernel.release)))
}

/// 6.1.0-9 comes before 6.1.0-56.
fn numbers(release: &str) -> Vec<u64> {
    release.split(|c: char| !c.is_ascii_digit()).filter_map(|part| part.parse().ok()).collect()
}

fn packed_image(root: &Path, release: &str) -> PathBuf {
    root.join(format!("boot/vmlinuz-{release}"))
}

/// The release that the distribution would install today, such as 6.1.0-56-amd64.
fn latest_release() -> Result<String> {
    let find = || META_PACKAGES.iter().find_map(|package| release_of(package));
    if let Some(release) = find() {
        return Ok(release);
    }
    setup::refresh_package_lists()?;
    find().with_context(|| {
        let names = META_PACKAGES.join(" nor ");
        format!("apt-cache knows neither {names}.\nNext: add Debian's or Ubuntu's archive to apt's sources")
    })
}

fn release_of(meta: &str) -> Option<String> {
    let depends = cmd!(sh::here(), "apt-cache depends --important {meta}").text().ok()?;
    depends.lines().find_map(|line| {
        let release = line.trim().strip_prefix("Depends: linux-image-")?;
        release.starts_with(|c: char| c.is_ascii_digit()).then(|| release.to_owned())
    })
}

/// Downloads into `work`, unpacks and prepares there, and moves the result to `place`.
fn fetch(release: &str, work: &Path, place: &Path) -> Result<()> {
    // Debian has everything in the image's package; Ubuntu has the modules in two others.
    let more =
        ["linux-modules-", "linux-modules-extra-"].map(|prefix| format!("{prefix}{release}"));
    let mut packages = vec![format!("linux-image-{release}")];
    let sh = sh::at(work);
    packages.extend(more.into_iter().filter(|it| cmd!(sh, "apt-cache show {it}").succeeds()));
    // As root, apt would fetch as its own user, who may not write here, and warn.
    cmd!(sh, "apt-get -o APT::Sandbox::User=root download {packages...}")
        .step("Fetching a kernel (70 MB, once)")
        .next("the package lists may be old: apt-get update")?;

    let root = paths::directory(work.join("root"))?;
    for entry in fs::read_dir(work)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "deb") {
            cmd!(sh, "dpkg -x {path} {root}").step("Unpacking")?;
        }
    }
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
    cmd!(sh, "depmod -b {root} {release}").step("Listing its modules")?;
    vmlinux::extract(&packed_image(&root, release), &root)?;
    match fs::rename(&root, place) {
        // Another run was quicker; its kernel is as good.
        Err(_) if place.exists() => Ok(()),
        result => result.with_context(|| format!("cannot move the kernel to {}", place.display())),
    }
}

#[cfg(test)]
mod tests {
    use super::numbers;

    #[test]
    fn releases_sort_by_number() {
        assert!(numbers("6.1.0-9-amd64") < numbers("6.1.0-56-amd64"));
        assert!(numbers("6.1.0-56-amd64") < numbers("6.12.1-1-amd64"));
    }
}
