//! Packages from other suites and architectures than the system's, with package lists that are
//! separate from the system's.

use std::path::{Path, PathBuf};
use std::{fs, process};

use anyhow::{Context, Result};

use crate::paths;
use crate::sh::{self, Cmd, Next, Run, cmd};

const NEEDS_DEBIAN: &str =
    "check that Debian's archive is reachable, and that debian-archive-keyring is up to date";

/// Debian's archive, for systems whose sources do not include it, such as Ubuntu.
const ARCHIVE: &str = "http://deb.debian.org/debian";
/// The suite for packages of another architecture.
const STABLE: &str = "trixie";

/// Package lists.
pub struct Lists {
    options: Vec<String>,
}

impl Lists {
    /// The lists of Debian's stable suite for another architecture, kept in `dir`.
    pub fn foreign(dir: &Path, architecture: &str) -> Result<Self> {
        let mut lists = Self::debian(dir, &[STABLE])?;
        lists.options.push(format!("APT::Architecture={architecture}"));
        lists.options.push(format!("APT::Architectures::={architecture}"));
        Ok(lists)
    }

    /// The lists of these Debian suites, from the system's Debian archive, kept in `dir`.
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
            // As root, apt would fetch as its own user, which may not write here, and print a
            // warning.
            "APT::Sandbox::User=root".to_owned(),
            format!("Dir::State={dir}/state"),
            format!("Dir::Cache={dir}/cache"),
            "Dir::State::status=/dev/null".to_owned(),
            format!("Dir::Etc::sourcelist={}", sources.display()),
            "Dir::Etc::sourceparts=/dev/null".to_owned(),
            // Keeps the lists of other suites, so that none is fetched twice.
            "APT::Get::List-Cleanup=false".to_owned(),
            "Acquire::Languages=none".to_owned(),
            "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false".to_owned(),
        ];
        Ok(Self { options })
    }

    /// Like `debian`, and fetches the lists. A suite whose archive is gone or outdated is left out
    /// with a note, because another suite may contain the package.
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

    /// The names of packages with this prefix.
    pub fn names(&self, prefix: &str) -> Result<Vec<String>> {
        let names = self.apt("apt-cache", Path::new(".")).args(["pkgnames", prefix]).text()?;
        Ok(names.lines().map(str::to_owned).collect())
    }

    /// The metadata of a package: its version, and the names of its dependencies.
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

/// The Debian archive that the system uses, otherwise the public one.
fn archive() -> Result<String> {
    let format = "$(LABEL) $(REPO_URI)";
    let targets = cmd!(sh::here(), "apt-get indextargets --format {format}").text()?;
    let mut uris = targets.lines().filter_map(|line| line.strip_prefix("Debian "));
    Ok(uris.next().unwrap_or(ARCHIVE).to_owned())
}

/// Creates `place` from the files that `fetch` leaves in its second directory; the first is for
/// temporary files. It works in a separate directory, so that an incomplete download never looks
/// complete.
pub fn once(place: &Path, fetch: impl FnOnce(&Path, &Path) -> Result<()>) -> Result<()> {
    if place.exists() {
        return Ok(());
    }
    let work = aside(place.parent().context("a place has a parent")?.to_owned())?;
    let root = paths::directory(work.join("root"))?;
    let result = fetch(&work, &root).and_then(|()| match fs::rename(&root, place) {
        // Another run was faster, and its download is the same.
        Err(_) if place.exists() => Ok(()),
        result => result.with_context(|| format!("cannot make {}", place.display())),
    });
    fs::remove_dir_all(&work).with_context(|| format!("cannot remove {}", work.display()))?;
    result
}

/// A directory below `parent` that only this process uses. It is removed by the next run at the
/// latest.
pub fn aside(parent: PathBuf) -> Result<PathBuf> {
    let parent = paths::directory(parent)?;
    sweep(&parent)?;
    paths::directory(parent.join(format!("{ASIDE}{}", process::id())))
}

/// The prefix of directories that only one process uses.
const ASIDE: &str = "tmp.";

/// Removes the directories of killed runs.
fn sweep(dir: &Path) -> Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let name = entry.file_name();
        let pid = name.to_str().and_then(|name| name.strip_prefix(ASIDE));
        if pid.is_some_and(|pid| !Path::new("/proc").join(pid).exists()) {
            // Another thread may be removing it.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
    Ok(())
}
