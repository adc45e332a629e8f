//! `cargo xtask lines`: lines of code by part of the repository.
//!
//! A line of code has a token outside of comments, doc comments and modules with `#[cfg(test)]`,
//! whether these are inline or files of their own.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::{Context, Result, anyhow};
use proc_macro2::{Delimiter, TokenStream, TokenTree};

use crate::paths;
use crate::sh::{self, Run, cmd};

#[derive(clap::Args)]
pub struct Args {
    /// Instead, count the commits of this range that change src, sys, loopback or macros, and those
    /// of them that also change a hand-kept table or RULES.md.
    #[arg(long, value_name = "REV..REV")]
    tables_touched: Option<String>,
}

/// A name, the folders that are counted, and the folders in these that are not.
const PARTS: [(&str, &[&str], &[&str]); 4] = [
    ("xtask", &["xtask"], &[]),
    ("harness", &["xtask", "benches", "tests/programs", "tests/simulation"], &[]),
    ("src without cm and endpoint", &["src"], &["src/cm", "src/cm.rs", "src/endpoint"]),
    ("library", &LIBRARY, &[]),
];
const LIBRARY: [&str; 4] = ["src", "sys", "loopback", "macros"];
/// Files of cargo and of other tools.
const OF_TOOLS: [&str; 6] = [
    "Cargo.toml",
    "deny.toml",
    "rustfmt.toml",
    "clippy.toml",
    "config.toml",
    "rust-toolchain.toml",
];

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
            codes.push((file, code.lines.len()));
        } else if is_table(file) {
            tables.push((file, read(file)?.lines().count()));
        }
    }
    // The submodules of a test module too.
    let is_test = |file: &str| {
        tests.iter().any(|test| is_in(file, test) || Path::new(file) == test.with_extension("rs"))
    };
    for (name, folders, without) in PARTS {
        let is_of = |file: &str, folders: &[&str]| folders.iter().any(|it| is_in(file, it));
        let of = codes.iter().filter(|(file, _)| is_of(file, folders) && !is_of(file, without));
        let lines = of.filter(|(file, _)| !is_test(file)).map(|(_, lines)| lines).sum::<usize>();
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
    lines: BTreeSet<usize>,
    /// Test modules that are files, without the extension.
    test_files: Vec<PathBuf>,
}

impl Code {
    fn of(file: &str) -> Result<Code> {
        let (text, mut code) = (read(file)?, Code::default());
        let tokens = TokenStream::from_str(&text).map_err(|error| anyhow!("{error}"))?;
        code.walk(tokens, &text.lines().collect::<Vec<_>>(), Path::new(file));
        Ok(code)
    }

    fn walk(&mut self, tokens: TokenStream, text: &[&str], file: &Path) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let mut at = 0;
        while let Some(token) = tokens.get(at) {
            if let Some(length) = self.test_module(&tokens[at..], file) {
                at += length;
                continue;
            }
            at += 1;
            let (start, end) = (token.span().start(), token.span().end());
            let here: String = text[start.line - 1].chars().skip(start.column).take(2).collect();
            match token {
                // Tokens that a doc comment stands for are at the place of the comment.
                _ if here == "//" || here == "/*" => {}
                TokenTree::Group(group) => {
                    self.lines.extend([start.line, end.line]);
                    self.walk(group.stream(), text, file);
                }
                _ => self.lines.extend(start.line..=end.line),
            }
        }
    }

    /// The number of tokens, if these begin with a module with `#[cfg(test)]`.
    fn test_module(&mut self, tokens: &[TokenTree], file: &Path) -> Option<usize> {
        let text = |at: usize| tokens.get(at).map_or(String::new(), ToString::to_string);
        let cfg = text(1).replace(' ', "");
        if text(0) != "#" || !["[cfg(test)]", "[cfg(all(test,"].iter().any(|it| cfg.starts_with(it))
        {
            return None;
        }
        let is_end = |token: &TokenTree| match token {
            TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
            token => token.to_string() == ";",
        };
        let end = tokens.iter().position(is_end)?;
        let name = (2..end).find(|at| text(at - 1) == "mod").map(text)?;
        if text(end) == ";" {
            let folder = file.parent().unwrap_or(file);
            let is_root = ["mod.rs", "lib.rs", "main.rs"].iter().any(|root| file.ends_with(root));
            let below =
                if is_root { folder.join(name) } else { file.with_extension("").join(name) };
            let path = (2..end).find_map(|at| {
                text(at)
                    .strip_prefix("[path = \"")?
                    .strip_suffix("\"]")
                    .map(|path| folder.join(path))
            });
            self.test_files.push(path.unwrap_or(below).with_extension(""));
        }
        Some(end + 1)
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
