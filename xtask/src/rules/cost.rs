//! `cargo xtask rules --cost`: what the rules cost who compiles.
//!
//! Processor time, not that of the clock: it says the same on a busy machine.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use super::mutate::newest_library;
use crate::sh::{self, Run, cmd};
use crate::{cargo, paths, setup};

/// What is measured, and the most that it may take, seconds of processor time.
struct Cost {
    what: &'static str,
    most: f64,
}

const CRATE: Cost = Cost { what: "the crate, without its dependencies", most: 15.0 };
const CHAIN: Cost = Cost { what: "a program with one chain of 64 work requests", most: 1.0 };
const TESTS: Cost = Cost { what: "the ui-tests and the truth tables", most: 300.0 };

pub fn run() -> Result<()> {
    setup::ensure(&[setup::Group::Build])?;
    let root = paths::workspace();
    let row = |cost: &Cost, seconds: f64| -> Result<()> {
        println!("{}: {seconds:.1} s of {} s allowed", cost.what, cost.most);
        ensure!(seconds < cost.most, "{}: that is too much processor time", cost.what);
        Ok(())
    };
    // The dependencies are not measured; of the crate nothing is kept, as where a user compiles it.
    cargo::cargo(&["build", "--quiet", "--lib"])?.env("CARGO_INCREMENTAL", "0").bytes()?;
    let now = std::time::SystemTime::now();
    fs::File::options().append(true).open(root.join("src/lib.rs"))?.set_modified(now)?;
    row(&CRATE, seconds("CARGO_INCREMENTAL=0 cargo build --quiet --lib", &root)?)?;
    row(&CHAIN, seconds(&chain(&root)?, &root)?)?;
    cargo::cargo(&["test", "--quiet", "--no-run", "--test", "ui", "--test", "truth_table"])?
        .bytes()?;
    row(&TESTS, seconds("cargo test --quiet --test ui --test truth_table", &root)?)
}

/// The processor time of a shell command and of all that it starts.
fn seconds(command: &str, dir: &Path) -> Result<f64> {
    let script =
        format!("{command} >/dev/null 2>&1 || {{ echo \"{command} failed\" >&2; exit 1; }}; times");
    let text = cmd!(sh::at(dir), "sh -c {script}").text()?;
    // The shell's own, then its children's: user and system.
    let line = text.lines().nth(1).context("`times` has two lines")?;
    line.split_whitespace().map(minutes).sum()
}

/// `1m2.5s` as seconds.
fn minutes(text: &str) -> Result<f64> {
    let parts = text.trim_end_matches('s').split_once('m').context("`times` gives minutes")?;
    Ok(parts.0.parse::<f64>()? * 60.0 + parts.1.parse::<f64>()?)
}

/// Writes the program with the chain, and gives the command that checks it.
fn chain(root: &Path) -> Result<String> {
    let dir = paths::below_target("costs")?;
    paths::directory(dir.clone())?;
    let elements: String =
        (0..64).map(|i| format!("        wr::RdmaWrite::inline(&[{i}; 8], at),\n")).collect();
    let program = format!(
        "use proverbs::prelude::*;\n\nfn list(qp: &mut QueuePair<Rc, Rts>, at: RemoteSpan) {{\n    \
         post_send!(qp, [\n{elements}    ]).unwrap();\n}}\n\nfn main() {{}}\n"
    );
    let file = dir.join("chain.rs");
    fs::write(&file, program)?;
    cargo::cargo(&["check", "--quiet", "--lib"])?.bytes()?;
    let deps = root.join("target/debug/deps");
    let library = newest_library(&deps)?;
    Ok(format!(
        "rustc --edition=2024 --emit=metadata -o {}/chain.rmeta -L dependency={} \
         --extern proverbs={} {}",
        dir.display(),
        deps.display(),
        library.display(),
        file.display()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shells_times_are_read() {
        assert_eq!(minutes("1m2.5s").unwrap(), 62.5);
        assert!(minutes("2.5").is_err());
    }

    #[test]
    fn children_count() {
        let root = paths::workspace();
        assert!(seconds("sh -c true", &root).unwrap() < 5.0);
        assert!(seconds("false", &root).is_err());
    }
}
