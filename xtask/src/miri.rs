//! `cargo xtask miri`: the conformance and attack suites under Miri, in both borrow models.

use std::process::ExitCode;

use anyhow::{Result, bail};

use crate::sanitize::FORGETTING;
use crate::sh::Cmd;
use crate::{Outcome, cargo, setup};

#[derive(clap::Args)]
pub struct Args {
    /// One borrow model only.
    #[arg(long)]
    model: Option<Model>,
    /// Look for leaks too, in those attacks that forget nothing.
    #[arg(long)]
    leaks: bool,
    /// Only tests whose names contain this.
    filter: Option<String>,
}

/// What Miri takes a reference to promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Model {
    StackedBorrows,
    TreeBorrows,
}

impl Model {
    /// SGE addresses are integers, as the hardware takes them: hence the permissive provenance. Memory
    /// that is open to the fabric is touched by words and by bytes, always atomically, which Miri's store
    /// buffers cannot follow: hence no weak memory. Tests forget things on purpose, and what is stranded
    /// with a queue that was not drained stays in flight: hence leaks are let pass, but where nothing is forgotten.
    pub fn flags(self, leaks: bool) -> String {
        let mut flags =
            "-Zmiri-permissive-provenance -Zmiri-disable-weak-memory-emulation".to_owned();
        if !leaks {
            flags.push_str(" -Zmiri-ignore-leaks");
        }
        if self == Model::TreeBorrows {
            flags.push_str(" -Zmiri-tree-borrows");
        }
        flags
    }
}

pub fn main(args: Args) -> Outcome {
    let models = match args.model {
        Some(model) => vec![model],
        None => vec![Model::StackedBorrows, Model::TreeBorrows],
    };
    for model in models {
        match args.leaks {
            true => leaks(model, args.filter.as_deref())?,
            false => run(model, args.filter.as_deref())?,
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Both models at once, since Miri uses one processor.
pub fn run_both() -> Result<()> {
    // One builds what both run.
    setup::ensure(&[setup::Group::Build])?;
    setup::nightly()?;
    std::thread::scope(|scope| {
        let tree = scope.spawn(|| run(Model::TreeBorrows, None));
        let stacked = run(Model::StackedBorrows, None);
        let tree = tree.join().unwrap_or_else(|_| bail!("the thread that ran Miri panicked"));
        stacked.and(tree)
    })
}

/// The suites in one model, and the unit tests of the books.
pub fn run(model: Model, filter: Option<&str>) -> Result<()> {
    setup::ensure(&[setup::Group::Build])?;
    setup::nightly()?;
    let mut suite = vec!["+nightly", "miri", "test", "--test", "conformance", "--test", "attack"];
    suite.extend(filter);
    miri(model, &suite, false)?;
    if filter.is_none() {
        miri(model, &["+nightly", "miri", "test", "--lib", "qp::"], false)?;
    }
    Ok(())
}

/// The attacks that forget nothing: what they leave behind is a leak.
fn leaks(model: Model, filter: Option<&str>) -> Result<()> {
    setup::ensure(&[setup::Group::Build])?;
    setup::nightly()?;
    let mut suite = vec!["+nightly", "miri", "test", "--test", "attack"];
    suite.extend(filter);
    suite.push("--");
    suite.extend(FORGETTING.iter().flat_map(|name| ["--skip", *name]));
    miri(model, &suite, true)
}

/// `cargo +nightly miri ...` with these flags.
pub fn on(cmd: Cmd, flags: &str) -> Cmd {
    // With `cargo xtask`, cargo names its own toolchain to us; Miri needs the other.
    cmd.env("MIRIFLAGS", flags)
        .without("RUSTUP_TOOLCHAIN")
        .without("CARGO")
        .hint("rustup component add --toolchain nightly miri rust-src")
}

fn miri(model: Model, args: &[&str], leaks: bool) -> Result<()> {
    match on(cargo::cargo(args)?, &model.flags(leaks)).stream()? {
        0 => Ok(()),
        code => bail!("Miri found something, or did not run: code {code} ({model:?})"),
    }
}
