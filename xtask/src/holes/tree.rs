//! The copy of the project in which holes are brought back, and what is run there.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::{env, fs};

use anyhow::{Context, Result, bail};

use super::hole::{By, Hole, Run, Under};
use crate::miri::{self, Model};
use crate::sh::{self, Cmd, Run as _, cmd};
use crate::test::FEATURES;
use crate::toolchain::WITH_NIGHTLY;
use crate::{loom, paths, programs};

/// How long a test may run that is not a sleep without end; unharmed they take seconds.
const MOST_SECONDS: &str = "300";
/// How long one may run that is.
const HANG_SECONDS: &str = "30";
/// How long the generated programs may take. What sleeps in one of them is ended by a clock of
/// their own.
const PROGRAMS_SECONDS: &str = "900";
/// How often attacks with threads try.
const ROUNDS: &str = "20000";
/// What timeout(1) exits with when it ends its command, or must kill it.
const TIMED_OUT: [i32; 2] = [124, 137];

/// Below the target directory, with a target directory of its own, which is kept.
pub struct Tree {
    dir: PathBuf,
    target: PathBuf,
}

/// What a run came to.
pub enum Seen {
    Passed,
    Failed,
    TimedOut,
    /// The crate, or a test, does not compile: what the compiler said.
    NotBuilt(String),
}

impl Tree {
    /// The project's files as they are now, those not yet committed too. Only what differs is
    /// written, so that little is built again.
    pub fn new() -> Result<Tree> {
        let root = paths::workspace();
        let below = paths::below_target("holes")?;
        let tree =
            Tree { dir: paths::directory(below.join("tree"))?, target: below.join("target") };
        let list = ["ls-files", "-z", "--cached", "--others", "--exclude-standard"];
        let list = cmd!(sh::at(&root), "git {list...}").bytes()?;
        let mut names = BTreeSet::new();
        for name in list.split(|&byte| byte == 0).filter(|name| !name.is_empty()) {
            let name = Path::new(OsStr::from_bytes(name));
            if !root.join(name).is_file() {
                continue; // removed, and not yet committed
            }
            let new = fs::read(root.join(name)).with_context(|| name.display().to_string())?;
            let at = tree.dir.join(name);
            if fs::read(&at).ok().as_ref() != Some(&new) {
                paths::directory(at.parent().context("a file is in a directory")?.to_owned())?;
                fs::write(&at, new)?;
            }
            names.insert(at);
        }
        remove_others(&tree.dir, &names)?;
        Ok(tree)
    }

    /// Brings the hole back, or closes it again.
    pub fn apply(&self, hole: &Hole, reverse: bool) -> Result<()> {
        // The tree is below a repository, and is none: without the ceiling, git would look for that
        // one's files.
        let ceiling = self.dir.parent().context("the tree is below the target directory")?;
        let (reverse, patch) = (reverse.then_some("--reverse"), &hole.patch);
        let git = cmd!(sh::at(&self.dir), "git apply {reverse...} {patch}");
        let applied = git.env("GIT_CEILING_DIRECTORIES", ceiling).bytes().map(drop);
        applied.with_context(|| format!("{} does not apply any more", hole.patch.display()))
    }

    /// Whether the crate compiles.
    pub fn crate_builds(&self) -> Result<Seen> {
        let (code, text) =
            self.cargo(&["build", "--quiet", "--features", FEATURES], &[])?.capture()?;
        Ok(if code == 0 { Seen::Passed } else { Seen::NotBuilt(text) })
    }

    /// Builds and runs.
    pub fn run(&self, run: &Run, by: By) -> Result<Seen> {
        let line: Vec<&str> = run.args.iter().map(String::as_str).collect();
        let (build, filter) =
            line.split_at(line.iter().position(|&arg| arg == "--").unwrap_or(line.len()));
        let seconds = if by == By::Hang { HANG_SECONDS } else { MOST_SECONDS };
        let limit = ["timeout", "--kill-after=5", seconds];
        let test = [run.under.words(), build].concat();
        // (Examples of the documentation are built as they run.)
        if !build.contains(&"--doc") {
            let (code, text) =
                self.tool(run.under, &[], &[&test[..], &["--no-run"]].concat())?.capture()?;
            if code != 0 {
                return Ok(Seen::NotBuilt(text));
            }
        }
        let cmd = self.tool(run.under, &limit, &[&test[..], filter].concat())?;
        let (code, _) = cmd.envs(run.env.iter().map(|(name, value)| (name, value))).capture()?;
        Ok(match code {
            0 => Seen::Passed,
            code if TIMED_OUT.contains(&code) => Seen::TimedOut,
            _ => Seen::Failed,
        })
    }

    /// The generated programs, by this very command, in the tree; and what they printed.
    pub fn programs(&self, args: &str) -> Result<(Seen, String)> {
        let me = env::current_exe()?;
        let limit = PROGRAMS_SECONDS;
        let cmd = cmd!(sh::at(&self.dir), "timeout --kill-after=5 {limit} {me} programs --first");
        let cmd =
            cmd.args(args.split_whitespace()).env("CARGO_MANIFEST_DIR", self.dir.join("xtask"));
        let (code, text) = self.builds_here(cmd).capture()?;
        let seen = match code {
            0 => Seen::Passed,
            code if code == i32::from(programs::FAILED) => Seen::Failed,
            code if TIMED_OUT.contains(&code) => Seen::TimedOut,
            // They were not built, or not run: nothing was noticed.
            _ => Seen::NotBuilt(text.clone()),
        };
        Ok((seen, text))
    }

    /// Cargo as the run needs it.
    fn tool(&self, under: Under, before: &[&str], args: &[&str]) -> Result<Cmd<'static>> {
        let cmd = self.cargo(args, before)?;
        Ok(match under {
            Under::Native | Under::Loom => cmd,
            Under::Miri => {
                miri::on(cmd.env_remove("ATTACK_ROUNDS"), &Model::StackedBorrows.flags(false))
            }
            Under::MiriTree => {
                miri::on(cmd.env_remove("ATTACK_ROUNDS"), &Model::TreeBorrows.flags(false))
            }
            Under::MiriWeak => {
                miri::on(cmd.env_remove("ATTACK_ROUNDS"), &miri::weak_flags(miri::MANY))
            }
        })
    }

    fn cargo(&self, args: &[&str], before: &[&str]) -> Result<Cmd<'static>> {
        let all = [before, &["cargo"], args].concat();
        let Some((first, rest)) = all.split_first() else { bail!("nothing to run") };
        let cmd = cmd!(sh::at(&self.dir), "{first} {rest...}");
        // Holes that open in one order of two threads are to be met.
        Ok(self.builds_here(cmd).env("ATTACK_ROUNDS", ROUNDS))
    }

    /// The crate is built many times, with a few lines that differ: incrementally, which CI turns
    /// off, since it builds all else once.
    fn builds_here(&self, cmd: Cmd<'static>) -> Cmd<'static> {
        cmd.env("CARGO_TARGET_DIR", &self.target).env("CARGO_INCREMENTAL", "1")
    }
}

impl Under {
    /// The command line up to which test it is.
    fn words(self) -> &'static [&'static str] {
        match self {
            Under::Native => &["test", "--quiet", "--features", FEATURES],
            Under::Loom => &loom::TEST,
            Under::Miri | Under::MiriTree | Under::MiriWeak => {
                &[WITH_NIGHTLY, "miri", "test", "--quiet", "--features", FEATURES]
            }
        }
    }
}

/// Removes the files below `dir` that are not in `names`.
fn remove_others(dir: &Path, names: &BTreeSet<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            remove_others(&entry.path(), names)?;
        } else if !names.contains(&entry.path()) {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}
