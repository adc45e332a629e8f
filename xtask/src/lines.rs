//! `cargo xtask lines`: lines of code by part of the repository. A line of code is not blank, not a
//! comment, and not in a module with `#[cfg(test)]` or `#[cfg(loom)]`, which may be a separate
//! file. The sources are formatted by rustfmt.

mod extensions;

use std::fs;
use std::path::{Path, PathBuf};
use std::str::Lines;

use anyhow::{Context, Result};

use crate::paths;
use crate::sh::{self, Run, cmd};

#[derive(clap::Args)]
pub struct Args {
    /// Instead, count the commits in this range that change src, sys, loopback or macros, and how
    /// many of these also change a hand-kept table or RULES.md.
    #[arg(long, value_name = "REV..REV")]
    tables_touched: Option<String>,
    /// Instead, count the core files that name each extension; with a name, list its files.
    #[arg(long, value_name = "NAME", value_parser = extensions::ALL.map(|(name, _)| name))]
    extensions: Option<Option<String>>,
}

/// A name, the folders that are counted, and the subfolders that are excluded.
const PARTS: [(&str, &[&str], &[&str]); 4] = [
    ("xtask", &["xtask"], &[]),
    ("harness", &["xtask", "benches", "tests/programs", "tests/simulation"], &[]),
    ("src without cm and endpoint", &["src"], &["src/cm", "src/cm.rs", "src/endpoint"]),
    ("library", &LIBRARY, &[]),
];
const LIBRARY: [&str; 4] = ["src", "sys", "loopback", "macros"];
/// Files of cargo and of other tools.
const OF_TOOLS: [&str; 4] = ["Cargo.toml", "deny.toml", "rustfmt.toml", "config.toml"];

pub fn main(args: &Args) -> Result<()> {
    if let Some(range) = &args.tables_touched {
        return tables_touched(range);
    }
    let list = cmd!(sh::at(paths::workspace()), "git ls-files -co --exclude-standard").text()?;
    let all = list.lines().filter(|file| paths::workspace().join(file).is_file());
    let (mut codes, mut tests, mut tables) = (Vec::new(), Vec::new(), Vec::new());
    for file in all {
        if file.ends_with(".rs") {
            let code = Code::of(file).with_context(|| file.to_owned())?;
            tests.extend(code.test_files);
            codes.push((file, code.lines));
        } else if is_table(file) {
            tables.push((file, read(file)?.lines().count()));
        }
    }
    // Including the submodules of a test module.
    let is_test = |file: &str| {
        tests.iter().any(|test| is_in(file, test) || Path::new(file) == test.with_extension("rs"))
    };
    codes.retain(|(file, _)| !is_test(file));
    let is_of = |file: &str, folders: &[&str]| folders.iter().any(|it| is_in(file, it));
    let of = |folders, without| {
        codes.iter().filter(move |(file, _)| is_of(file, folders) && !is_of(file, without))
    };
    if let Some(only) = &args.extensions {
        let core: Vec<_> = of(PARTS[2].1, PARTS[2].2).collect();
        extensions::print(&core, only.as_deref());
        return Ok(());
    }
    for (name, folders, without) in PARTS {
        let lines: usize = of(folders, without).map(|(_, code)| code.len()).sum();
        println!("{lines:>7}  {name}");
    }
    println!("{:>7}  hand-kept tables:", tables.iter().map(|(_, lines)| lines).sum::<usize>());
    tables.iter().for_each(|(file, lines)| println!("{lines:>7}    {file}"));
    Ok(())
}

fn read(file: &str) -> Result<String> {
    fs::read_to_string(paths::workspace().join(file)).context("cannot read it")
}

fn is_in(file: &str, folder: impl AsRef<Path>) -> bool {
    Path::new(file).starts_with(folder)
}

fn is_table(file: &str) -> bool {
    let name = file.rsplit('/').next().unwrap_or(file);
    file.ends_with(".list") || file.ends_with(".toml") && !OF_TOOLS.contains(&name)
}

#[derive(Default)]
struct Code {
    lines: Vec<String>,
    /// Test modules in separate files, without the extension.
    test_files: Vec<PathBuf>,
}

impl Code {
    fn of(file: &str) -> Result<Code> {
        let (text, mut code) = (read(file)?, Code::default());
        let mut lines = text.lines();
        while let Some(line) = lines.next() {
            let start = line.trim_start();
            let is_test = ["#[cfg(test)]", "#[cfg(all(test,", "#[cfg(all(loom,"]
                .iter()
                .any(|it| start.starts_with(it));
            if is_test && code.skip_module(&line[..line.len() - start.len()], &mut lines, file) {
                continue;
            }
            if !start.is_empty() && !start.starts_with("//") {
                code.lines.push(start.to_owned());
            }
        }
        Ok(code)
    }

    /// Skips a module with `#[cfg(test)]`. Other items with the attribute count.
    fn skip_module(&mut self, indent: &str, lines: &mut Lines<'_>, file: &str) -> bool {
        let mut ahead = lines.clone();
        let mut path = None;
        let module = ahead.by_ref().find(|line| {
            path = path.or_else(|| line.trim().strip_prefix("#[path = \"")?.strip_suffix("\"]"));
            !line.trim_start().starts_with("#[")
        });
        let Some((_, name)) = module.and_then(|line| line.split_once("mod ")) else { return false };
        if let Some(name) = name.strip_suffix(';') {
            self.test_files.push(module_file(Path::new(file), path, name));
        } else if !name.ends_with('}') {
            ahead.by_ref().find(|line| line.strip_prefix(indent) == Some("}"));
        }
        *lines = ahead;
        true
    }
}

/// The file of a module, without the extension.
fn module_file(of: &Path, path: Option<&str>, name: &str) -> PathBuf {
    let folder = of.parent().unwrap_or(of);
    let is_root = ["mod.rs", "lib.rs", "main.rs"].iter().any(|root| of.ends_with(root));
    match path {
        Some(path) => folder.join(path).with_extension(""),
        None if is_root => folder.join(name),
        None => of.with_extension("").join(name),
    }
}

fn tables_touched(range: &str) -> Result<()> {
    let log =
        cmd!(sh::at(paths::workspace()), "git log --no-merges --format=%x00 --name-only {range}");
    let (mut library, mut touching) = (0, 0);
    for commit in log.text()?.split('\0') {
        if commit.lines().any(|file| LIBRARY.iter().any(|folder| is_in(file, folder))) {
            library += 1;
            touching +=
                usize::from(commit.lines().any(|file| is_table(file) || file == "RULES.md"));
        }
    }
    let percent = 100.0 * touching as f64 / f64::from(library.max(1));
    println!("{touching} of {library} commits to the library touch a table: {percent:.1} %");
    Ok(())
}
