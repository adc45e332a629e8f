//! `cargo xtask chart`: the charts and the README's tables, from the result files.
//!
//! | file | what |
//! |---|---|
//! | `canvas` | bars in groups, as SVG, on a light and on a dark page |
//! | `read` | the result files |
//! | `overhead`, `field` | what each chart shows |
//! | `readme` | the tables, and the part of the README between the marks |

mod canvas;
mod field;
mod overhead;
mod read;
mod readme;

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};

use crate::{Outcome, paths};
use canvas::Page;

#[derive(clap::Args)]
pub struct Args {
    /// Write nothing; fail if something is not what would be written.
    #[arg(long)]
    check: bool,
}

pub fn main(args: Args) -> Outcome {
    if args.check {
        check()?;
    } else {
        write()?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Writes the charts and the README's part: commands that record results call it last.
pub fn write() -> Result<()> {
    for (file, text) in files()? {
        if fs::read_to_string(&file).ok().as_deref() != Some(&text) {
            fs::create_dir_all(file.parent().context("a file is in a directory")?)?;
            fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))?;
            eprintln!("wrote {}", file.display());
        }
    }
    Ok(())
}

fn check() -> Result<()> {
    for (file, text) in files()? {
        let found = fs::read_to_string(&file).with_context(|| format!("{}", file.display()))?;
        if found != text {
            bail!("{} is not what the results say.\nNext: cargo xtask chart", file.display());
        }
    }
    Ok(())
}

/// All that is made, and where it goes.
fn files() -> Result<Vec<(PathBuf, String)>> {
    let results = read::all()?;
    let root = paths::workspace();
    let charts = [("overhead", overhead::chart(&results)?), ("field", field::chart(&results)?)];
    let mut files = vec![(root.join("README.md"), readme::whole(&results)?)];
    for (name, chart) in charts {
        for page in Page::ALL {
            let file = root.join(format!("benches/charts/{name}-{}.svg", page.name()));
            files.push((file, canvas::draw(&chart, page)?));
        }
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_readme_and_the_charts_are_what_the_results_say() {
        super::check().expect("cargo xtask chart has been run");
    }
}
