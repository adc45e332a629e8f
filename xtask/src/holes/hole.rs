//! A hole of the book: the smallest change that brings it back, and what notices that.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

/// `tests/holes/ID.patch`.
#[derive(Debug)]
pub struct Hole {
    pub id: String,
    pub patch: PathBuf,
    pub what: String,
    pub kind: Kind,
    /// Each of them notices.
    pub notices: Vec<Run>,
    pub by: By,
    /// What of the generated programs notices it, if one does.
    pub programs: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Safe code could do harm by it.
    Safe,
    Other,
}

/// Who runs it, and with which arguments of `cargo test`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Run {
    pub under: Under,
    /// Variables for it: `NAME=value`, before the arguments.
    pub env: Vec<(String, String)>,
    pub args: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Under {
    Native,
    /// Miri with Stacked Borrows.
    Miri,
    /// Miri with Tree Borrows.
    MiriTree,
    /// Miri with weak memory, over many seeds.
    MiriWeak,
    /// loom, which runs a model in every order that there is.
    Loom,
}

/// How a test shows that it noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// It fails.
    Failure,
    /// It fails, or does not end.
    Hang,
    /// It does not compile, though the crate does.
    Build,
}

impl Run {
    fn parse(line: &str) -> Run {
        const PREFIXES: [(&str, Under); 4] = [
            ("miri:", Under::Miri),
            ("miri-tree:", Under::MiriTree),
            ("miri-weak:", Under::MiriWeak),
            ("loom:", Under::Loom),
        ];
        let found = PREFIXES.iter().find_map(|(p, under)| Some((*under, line.strip_prefix(p)?)));
        let (under, rest) = found.unwrap_or((Under::Native, line));
        let mut args: Vec<String> = rest.split_whitespace().map(str::to_owned).collect();
        let is_variable = |arg: &String| arg.contains('=') && arg.starts_with(char::is_uppercase);
        let count = args.iter().take_while(|arg| is_variable(arg)).count();
        let env = args.drain(..count).filter_map(|arg| {
            arg.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()))
        });
        let env = env.collect();
        Run { under, env, args }
    }

    /// As it stands in the book.
    pub fn line(&self) -> String {
        let prefix = match self.under {
            Under::Native => "",
            Under::Miri => "miri: ",
            Under::MiriTree => "miri-tree: ",
            Under::MiriWeak => "miri-weak: ",
            Under::Loom => "loom: ",
        };
        let env: String = self.env.iter().map(|(name, value)| format!("{name}={value} ")).collect();
        format!("{prefix}{env}{}", self.args.join(" "))
    }
}

impl Hole {
    fn parse(patch: PathBuf, text: &str) -> Result<Hole> {
        let id = patch.file_stem().context("a patch has a name")?.to_string_lossy().into_owned();
        let head = || text.lines().take_while(|line| line.starts_with('#'));
        let all = |key: &str| -> Vec<&str> {
            let key = format!("# {key}:");
            head().filter_map(|line| line.strip_prefix(&*key)).map(str::trim).collect()
        };
        let one = |key: &str| -> Result<&str> {
            match all(key)[..] {
                [value] if !value.is_empty() => Ok(value),
                _ => bail!("a patch begins with one line `# {key}: ...`"),
            }
        };
        for line in head() {
            let key = line.trim_start_matches('#').trim().split(':').next().unwrap_or_default();
            let known = ["what", "found", "notices", "notices-by", "kind", "programs"];
            ensure!(known.contains(&key), "`{line}`: known are {}", known.join(", "));
        }
        one("found")?;
        let kind = match one("kind")? {
            "safe" => Kind::Safe,
            "other" => Kind::Other,
            kind => bail!("`# kind: {kind}` is neither `safe` nor `other`"),
        };
        let by = match all("notices-by")[..] {
            [] => By::Failure,
            ["hang"] => By::Hang,
            ["build"] => By::Build,
            _ => bail!("`# notices-by:` is `hang` or `build`, once"),
        };
        let notices: Vec<Run> = all("notices").into_iter().map(Run::parse).collect();
        ensure!(!notices.is_empty(), "no line `# notices: ...`: nothing notices it");
        let what = one("what")?.to_owned();
        let programs = all("programs").first().map(|&args| args.to_owned());
        Ok(Hole { id, patch, what, kind, notices, by, programs })
    }
}

/// All holes, in the order of their names.
pub fn all(book: &Path) -> Result<Vec<Hole>> {
    let mut holes = Vec::new();
    for entry in fs::read_dir(book).with_context(|| format!("no book in {}", book.display()))? {
        let path = entry?.path();
        if path.extension().is_some_and(|kind| kind == "patch") {
            let text = fs::read_to_string(&path)?;
            let hole = Hole::parse(path.clone(), &text);
            holes.push(hole.with_context(|| path.display().to_string())?);
        }
    }
    holes.sort_by(|a, b| a.id.cmp(&b.id));
    Ok(holes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "# what: it\n# found: by reading\n# kind: safe\n";

    fn parse(more: &str) -> Result<Hole> {
        Hole::parse("X1.patch".into(), &format!("{HEAD}{more}--- a/x\n+++ b/x\n# not: a header\n"))
    }

    #[test]
    fn what_a_patch_begins_with() {
        let hole =
            parse("# notices: A=1 --lib a::b\n# notices: miri-tree: --test attack x\n").unwrap();
        assert_eq!((hole.id.as_str(), hole.kind, hole.by), ("X1", Kind::Safe, By::Failure));
        let lines: Vec<_> = hole.notices.iter().map(Run::line).collect();
        assert_eq!(lines, ["A=1 --lib a::b", "miri-tree: --test attack x"]);
        assert_eq!(hole.notices[1].under, Under::MiriTree);
        assert!(hole.programs.is_none());
        let hole = parse("# notices: --lib\n# notices-by: hang\n# programs: --seed 3\n").unwrap();
        assert_eq!((hole.by, hole.programs.as_deref()), (By::Hang, Some("--seed 3")));
    }

    #[test]
    fn what_is_wrong_with_a_patch_is_said() {
        for (more, word) in [
            ("", "notices"),
            ("# notices: --lib\n# seen: by me\n", "seen"),
            ("# notices: --lib\n# kind: other\n", "kind"),
            ("# notices: --lib\n# notices-by: luck\n", "notices-by"),
        ] {
            let error = format!("{:#}", parse(more).unwrap_err());
            assert!(error.contains(word), "{error}");
        }
    }

    #[test]
    fn the_book_can_be_read() {
        let book = crate::paths::workspace().join("tests/holes");
        assert!(all(&book).unwrap().len() > 12);
    }
}
