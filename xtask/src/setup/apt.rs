//! Debian packages: what is missing, and installing it as root or through sudo.

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::MetadataExt;

use anyhow::{Context, Result, bail};

use crate::sh::Cmd;

/// Installs those of the packages that are missing.
pub fn install_missing(packages: &[&str]) -> Result<()> {
    let missing = missing(packages)?;
    if missing.is_empty() {
        return Ok(());
    }
    let root = Root::get(&missing)?;
    let mut fresh = false;
    if missing.iter().any(|package| !has_candidate(package)) {
        root.update()?;
        fresh = true;
    }
    match root.install(&missing) {
        // Lists that are out of date name versions the archive no longer has.
        Err(_) if !fresh => {
            root.update()?;
            root.install(&missing)
        }
        result => result,
    }
}

/// Whether a package can be installed, as far as the package lists know.
pub fn has_candidate(package: &str) -> bool {
    let policy = Cmd::new("apt-cache").args(["policy", package]).read_text().unwrap_or_default();
    policy.lines().any(|line| {
        line.trim().strip_prefix("Candidate: ").is_some_and(|version| version != "(none)")
    })
}

/// Fetches the package lists, for a caller that found a package to have no candidate.
pub fn refresh(wanted: &str) -> Result<()> {
    Root::get(&[wanted])?.update()
}

fn missing<'a>(packages: &[&'a str]) -> Result<Vec<&'a str>> {
    // dpkg-query fails when it does not know one of them, and still lists the others.
    let script = "dpkg-query -W -f '${Package} ${db:Status-Status}\\n' \"$@\" 2>/dev/null; :";
    if !Cmd::new("dpkg-query").arg("--version").succeeds() {
        bail!(
            "there is no dpkg-query here: the set-up knows Debian and Ubuntu only.\n\
             Next: use one of them (a container will do) or install what these are called here: {}",
            packages.join(" ")
        );
    }
    let list = Cmd::new("sh").args(["-c", script, "sh"]).args(packages).read_text()?;
    let installed: HashSet<&str> =
        list.lines().filter_map(|line| line.strip_suffix(" installed")).collect();
    Ok(packages.iter().filter(|package| !installed.contains(*package)).copied().collect())
}

/// How we become root.
enum Root {
    Already,
    Sudo,
}

impl Root {
    /// Fails with the line to type when we cannot install the packages ourselves.
    fn get(packages: &[&str]) -> Result<Self> {
        let me = fs::metadata("/proc/self").context("cannot tell who we are from /proc/self")?;
        if me.uid() == 0 {
            return Ok(Self::Already);
        }
        if Cmd::new("sudo").args(["-n", "true"]).succeeds() {
            return Ok(Self::Sudo);
        }
        bail!(
            "packages are missing, and we are neither root nor may use sudo without a password.\n\
             Next: sudo sh -c 'apt-get update && apt-get install -y --no-install-recommends {}'",
            packages.join(" ")
        );
    }

    fn apt_get(&self, args: &[&str]) -> Cmd {
        let words: &[&str] = match self {
            Self::Already => &["env"],
            Self::Sudo => &["sudo", "-n", "env"],
        };
        Cmd::new(words[0])
            .args(&words[1..])
            .args(["DEBIAN_FRONTEND=noninteractive", "apt-get", "-y"])
            // Another apt may be at work: unattended upgrades on a machine that just booted.
            .args(["-o", "DPkg::Lock::Timeout=120"])
            .args(args)
    }

    fn update(&self) -> Result<()> {
        self.apt_get(&["update"])
            .hint("see that the sources in /etc/apt can be reached from here")
            .run("Fetching the package lists")
    }

    fn install(&self, packages: &[&str]) -> Result<()> {
        self.apt_get(&["install", "--no-install-recommends"])
            .args(packages)
            .hint("run that line by hand and see what apt-get says")
            .run("Installing packages")
    }
}
