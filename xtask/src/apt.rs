//! Packages of other suites and architectures than the system's, by package lists that are kept
//! aside from the system's own.

use std::path::{Path, PathBuf};
use std::{fs, process};

use anyhow::{Context, Result};

use crate::paths;
use crate::sh::{self, Cmd, Next, Run, cmd};

const NEEDS_DEBIAN: &str =
    "see whether Debian's archive is reached, and debian-archive-keyring is of today";

/// Debian's archive, for systems that have none of it among their sources, as Ubuntu.
const ARCHIVE: &str = "http://deb.debian.org/debian";
/// The suite that the packages of another architecture are from.
const STABLE: &str = "trixie";

/// Package lists.
pub struct Lists {
    options: Vec<String>,
}

impl Lists {
    /// Those of Debian's stable suite for another architecture, kept in `dir`.
    pub fn foreign(dir: &Path, architecture: &str) -> Result<Self> {
        let mut lists = Self::debian(dir, &[STABLE])?;
        lists.options.push(format!("APT::Architecture={architecture}"));
        lists.options.push(format!("APT::Architectures::={architecture}"));
        Ok(lists)
    }

    /// Those of these suites of Debian, from where the system has its own of Debian, kept in `dir`.
    pub fn debian(dir: &Path, suites: &[&str]) -> Result<Self> {
        for needed in ["state/lists/partial", "cache/archives/partial"] {
            paths::directory(dir.join(needed))?;
        }
        let sources = dir.join("sources.list");
        let uri = archive()?;
        let signed = "signed-by=/usr/share/keyrings/debian-archive-keyring.gpg";
        let lines = suites.iter().map(|suite| {
            let security = if suite.ends_with("-security") { "-security" } else { "" };
            format!("deb [{signed}] {}{security} {suite} main\n", uri.trim_end_matches('/'))
        });
        let text: String = lines.collect();
        fs::write(&sources, text).with_context(|| format!("cannot write {}", sources.display()))?;
        let dir = dir.display();
        let options = vec![
            // As root, apt would fetch as its own user, who may not write here, and warn.
            "APT::Sandbox::User=root".to_owned(),
            format!("Dir::State={dir}/state"),
            format!("Dir::Cache={dir}/cache"),
            "Dir::State::status=/dev/null".to_owned(),
            format!("Dir::Etc::sourcelist={}", sources.display()),
            "Dir::Etc::sourceparts=/dev/null".to_owned(),
            // Lists of other suites stay, so that none is fetched twice.
            "APT::Get::List-Cleanup=false".to_owned(),
            "Acquire::Languages=none".to_owned(),
            "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false".to_owned(),
        ];
        Ok(Self { options })
    }

    /// As `debian`, and fetched. A suite whose archive is gone, or behind, is left out with a word:
    /// what is asked for may be in another one.
    pub fn fetched(dir: &Path, suites: &[&str]) -> Result<Self> {
        let all = Self::debian(dir, suites)?;
        let Err(error) = all.update() else { return Ok(all) };
        let alone = |suite: &&str| {
            let fetched = Self::debian(dir, &[suite]).and_then(|lists| lists.update());
            fetched
                .inspect_err(|error| eprintln!("note: without Debian's {suite}: {error:#}"))
                .is_ok()
        };
        let there: Vec<&str> = suites.iter().copied().filter(alone).collect();
        if there.is_empty() {
            return Err(error);
        }
        let lists = Self::debian(dir, &there)?;
        lists.update()?;
        Ok(lists)
    }

    fn apt(&self, program: &str, dir: &Path) -> Cmd<'static> {
        let options = self.options.iter().flat_map(|option| ["-o", option]);
        sh::at(dir).cmd(program).args(options)
    }

    /// Fetches the lists.
    pub fn update(&self) -> Result<()> {
        self.apt("apt-get", Path::new("."))
            .arg("update")
            .step("Fetching package lists")
            .next(NEEDS_DEBIAN)
    }

    /// The names of packages that begin like this.
    pub fn names(&self, prefix: &str) -> Result<Vec<String>> {
        let names = self.apt("apt-cache", Path::new(".")).args(["pkgnames", prefix]).text()?;
        Ok(names.lines().map(str::to_owned).collect())
    }

    /// What a package says of itself: its version, and the names that it depends on.
    pub fn about(&self, package: &str) -> Result<(String, Vec<String>)> {
        let show = ["show", "--no-all-versions", package];
        let said = self.apt("apt-cache", Path::new(".")).args(show).text()?;
        let field = |name: &str| said.lines().find_map(|line| line.strip_prefix(name));
        let version = field("Version: ").with_context(|| format!("what is {package}?"))?;
        let names = field("Depends: ").unwrap_or_default().split(", ");
        let names = names.filter_map(|name| name.split_whitespace().next());
        Ok((version.to_owned(), names.map(str::to_owned).collect()))
    }

    /// Downloads packages into `work`, and unpacks them in `root`.
    pub fn unpack<S: AsRef<str>>(&self, packages: &[S], work: &Path, root: &Path) -> Result<()> {
        let packages = packages.iter().map(AsRef::as_ref);
        self.apt("apt-get", work)
            .arg("download")
            .args(packages)
            .step("Fetching packages")
            .next("the package lists may be old: apt-get update")?;
        paths::directory(root.to_owned())?;
        for entry in fs::read_dir(work)? {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "deb") {
                cmd!(sh::here(), "dpkg -x {path} {root}").step("Unpacking")?;
            }
        }
        Ok(())
    }
}

/// The archive of Debian that the system uses, or else the public one.
fn archive() -> Result<String> {
    let format = "$(LABEL) $(REPO_URI)";
    let targets = cmd!(sh::here(), "apt-get indextargets --format {format}").text()?;
    let mut uris = targets.lines().filter_map(|line| line.strip_prefix("Debian "));
    Ok(uris.next().unwrap_or(ARCHIVE).to_owned())
}

/// Makes `place` by what `fetch` leaves in the second directory that it is given; the first is for
/// what it needs meanwhile. Half a download must never look like the whole: so it works aside.
pub fn once(place: &Path, fetch: impl FnOnce(&Path, &Path) -> Result<()>) -> Result<()> {
    if place.exists() {
        return Ok(());
    }
    let work = aside(place.parent().context("a place has a parent")?.to_owned())?;
    let root = paths::directory(work.join("root"))?;
    let result = fetch(&work, &root).and_then(|()| match fs::rename(&root, place) {
        // Another run was quicker; what it fetched is as good.
        Err(_) if place.exists() => Ok(()),
        result => result.with_context(|| format!("cannot make {}", place.display())),
    });
    fs::remove_dir_all(&work).with_context(|| format!("cannot remove {}", work.display()))?;
    result
}

/// A directory below `parent` that is this process's alone. The next run removes it at the latest.
pub fn aside(parent: PathBuf) -> Result<PathBuf> {
    let parent = paths::directory(parent)?;
    sweep(&parent)?;
    paths::directory(parent.join(format!("{ASIDE}{}", process::id())))
}

/// How directories begin that are one process's alone.
const ASIDE: &str = "tmp.";

/// Removes what runs that were killed left behind.
fn sweep(dir: &Path) -> Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let name = entry.file_name();
        let pid = name.to_str().and_then(|name| name.strip_prefix(ASIDE));
        if pid.is_some_and(|pid| !Path::new("/proc").join(pid).exists()) {
            // Another thread may be at it.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
    Ok(())
}
