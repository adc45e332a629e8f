//! `cargo xtask coverage`: every name of the C headers, and where it is here, or why not.
//!
//! The table is written by hand (`tests/coverage.toml`). It is held against the installed headers
//! and the newest that Debian has, and against the public items; COVERAGE.md is made from it.

mod headers;
mod page;

use std::collections::{BTreeMap, BTreeSet};
use std::env::consts::ARCH;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use crate::setup::{self, Group};
use crate::{apt, interface, paths, soft_roce};
use headers::{Kind, Names};

#[derive(clap::Args)]
pub struct Args {
    /// Write nothing; fail if COVERAGE.md is not what would be written.
    #[arg(long)]
    pub check: bool,
}

/// The table as it is written: paths or reasons, and the C names that they stand for.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    /// The version of libibverbs that the newest headers in it are of.
    newest: String,
    here: BTreeMap<String, String>,
    own: BTreeMap<String, String>,
    not: BTreeMap<String, String>,
    inner: BTreeMap<String, String>,
}

/// What the table says of a C name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    /// Public, under nearly its own name.
    Here,
    /// Public, in another form.
    Own,
    /// Has no form.
    Not,
    /// Of the headers' own use.
    Inner,
}

/// Each C name with its places; a name may be used for several things.
type Places = BTreeMap<String, Vec<(Place, String)>>;

pub fn main(args: &Args) -> Result<()> {
    setup::ensure(&[Group::Build])?;
    let table = table()?;
    let mut names = Names::new();
    headers::read(Path::new("/usr/include"), &mut names)?;
    let newest = newest()?;
    if let Some(newest) = &newest {
        headers::read(newest, &mut names)?;
    }
    let is_whole = newest.is_some();
    let (places, mut faults) = places(&table, &names, is_whole);
    faults.extend(gone(&table, &interface::names()?));
    ensure!(
        faults.is_empty(),
        "{}\n{} faults in tests/coverage.toml.\nNext: mend the rows",
        faults.join("\n"),
        faults.len()
    );
    let page = page::make(&names, &places);
    let path = paths::workspace().join("COVERAGE.md");
    if !is_whole {
        eprintln!("note: COVERAGE.md is left as it is");
    } else if args.check {
        let written = fs::read_to_string(&path).unwrap_or_default();
        ensure!(
            page == written,
            "COVERAGE.md is not what the table says.\nNext: cargo xtask coverage"
        );
    } else {
        fs::write(&path, &page).with_context(|| format!("cannot write {}", path.display()))?;
    }
    println!("{}", page::summary(&names, &places));
    Ok(())
}

/// The newest headers, below this, fetched if they are not there; none, which is told, if they
/// cannot be had, or are not those that the table names: Debian may have gone on, or lend an older
/// suite only.
pub fn newest() -> Result<Option<PathBuf>> {
    let root = paths::below_target("soft-roce/rdma-core")?.join("headers");
    let fetched = apt::once(&root, |work, root| {
        soft_roce::debian()?.unpack(&["libibverbs-dev", "librdmacm-dev"], work, root)
    });
    if let Err(error) = fetched {
        eprintln!("note: only the installed headers are looked at: {error:#}");
        return Ok(None);
    }
    let (version, known) = (version(&root).context("the newest headers")?, table()?.newest);
    if version != known {
        eprintln!("note: there is libibverbs {version}, and the table has the names of {known}");
        return Ok(None);
    }
    Ok(Some(root.join("usr/include")))
}

fn table() -> Result<Table> {
    let text = fs::read_to_string(paths::workspace().join("tests/coverage.toml"));
    text.map_err(anyhow::Error::from)
        .and_then(|text| Ok(toml::from_str(&text)?))
        .context("tests/coverage.toml")
}

/// The version that pkg-config tells.
fn version(root: &Path) -> Result<String> {
    let path = root.join(format!("usr/lib/{ARCH}-linux-gnu/pkgconfig/libibverbs.pc"));
    let text = fs::read_to_string(&path).with_context(|| format!("{}", path.display()))?;
    let line = text.lines().find_map(|line| line.strip_prefix("Version: "));
    Ok(line.with_context(|| format!("{} tells no version", path.display()))?.to_owned())
}

/// The C names that the lines name, by the names that there are.
fn listed<'a>(lines: &'a str, names: &'a Names) -> impl Iterator<Item = String> + 'a {
    lines.lines().flat_map(move |line| {
        let (of, words) = match line.split_once(": ") {
            Some((of, words)) => (Some(of), words),
            None => (None, line),
        };
        words.split_whitespace().flat_map(move |word| match (of, word) {
            (Some(of), "*") => {
                let all =
                    names.iter().filter(|(_, declared)| declared.of == of || declared.header == of);
                all.map(|(name, _)| name.clone()).collect()
            }
            (Some(of), field) => vec![format!("{of}.{field}")],
            (None, name) => vec![name.to_owned()],
        })
    })
}

/// Where each name is, and what is wrong with that. If these are not all names (`is_whole`), the
/// table may have others.
fn places(table: &Table, names: &Names, is_whole: bool) -> (Places, Vec<String>) {
    let (mut places, mut faults) = (Places::new(), Vec::new());
    let tables = [
        (Place::Here, &table.here),
        (Place::Own, &table.own),
        (Place::Not, &table.not),
        (Place::Inner, &table.inner),
    ];
    for (place, rows) in tables {
        for (where_, lines) in rows {
            let before = places.len();
            if lines.contains(": *") && matches!(place, Place::Here | Place::Own) {
                faults.push(format!("{where_}: the names are not told"));
            }
            for name in listed(lines, names) {
                if is_whole && !names.contains_key(&name) {
                    faults.push(format!("{name}: no header has it"));
                }
                places.entry(name).or_default().push((place, where_.clone()));
            }
            if is_whole && places.len() == before {
                faults.push(format!("{where_}: stands for nothing that is not named elsewhere"));
            }
        }
    }
    for (name, all) in &places {
        let kinds: BTreeSet<bool> = all.iter().map(|(place, _)| *place <= Place::Own).collect();
        if kinds.len() > 1 || all[0].0 > Place::Own && all.len() > 1 {
            faults.push(format!("{name}: in several rows, {all:?}"));
        }
    }
    let missing = names.iter().filter(|(name, _)| !places.contains_key(*name));
    faults.extend(missing.map(|(name, declared)| {
        format!("{name}: of {} {} in no row", declared.header, declared.of)
    }));
    (places, faults)
}

/// Paths that are not public, or not any more.
fn gone(table: &Table, public: &BTreeSet<String>) -> Vec<String> {
    let paths = table.here.keys().chain(table.own.keys()).flat_map(|key| key.split(", "));
    let gone = paths.filter(|path| !public.contains(*path));
    gone.map(|path| format!("{path}: there is no such public item")).collect()
}
