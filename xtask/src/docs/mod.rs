//! `cargo xtask docs`: every public item is documented, says its errors, is shown in an example, and names where it
//! comes from.

mod example;
mod items;
mod json;
mod page;
mod told;

use std::collections::BTreeMap;
use std::process::ExitCode;

use anyhow::{Result, bail};

use crate::{Outcome, setup};
pub use items::{Item, Kind};
use told::{Asked, Told};

/// Reads what rustdoc tells of the public items, and lists what is missing.
#[derive(clap::Args)]
pub struct Args {
    /// List only what is missing in source files whose path contains this; the exit code tells of these alone.
    #[arg(value_name = "PATH")]
    only: Option<String>,
}

pub fn main(args: Args) -> Outcome {
    check(args.only.as_deref())?;
    Ok(ExitCode::SUCCESS)
}

/// The crate as rustdoc tells it, and the items that a user can reach.
pub fn interface() -> Result<(rustdoc_types::Crate, Vec<Item>)> {
    setup::ensure(&[setup::Group::Build])?;
    setup::nightly_toolchain()?;
    let krate = json::read("proverbs")?;
    let items = items::public(&krate, &json::read("proverbs-macros")?)?;
    Ok((krate, items))
}

/// The part `docs` of `cargo xtask test`.
pub fn check(only: Option<&str>) -> Result<()> {
    let (_, items) = interface()?;
    let pages = page::pages(&items);
    let told: Vec<Told> = (0..items.len()).map(|index| told::of(index, &items, &pages)).collect();
    table(&items, &told);

    let within = |item: &Item| only.is_none_or(|part| item.place.contains(part));
    let mut missing = 0;
    for (item, told) in items.iter().zip(&told).filter(|(item, _)| within(item)) {
        for what in &told.missing {
            missing += 1;
            eprintln!("{}: {} `{}` {}", item.place, item.kind, item.path, what.words());
        }
    }
    let count = |asked| Count::of(told.iter(), asked);
    println!(
        "{} public items: {}, {}, {}, {}",
        items.len(),
        count(Asked::Docs).words("documented"),
        count(Asked::Errors).words("with their errors told"),
        count(Asked::Example).words("shown in an example"),
        count(Asked::Source).words("with their source named"),
    );
    if missing > 0 {
        bail!("{missing} things are missing, listed above");
    }
    Ok(())
}

/// Of those that are asked for something, how many have it.
#[derive(Clone, Copy, Default)]
struct Count {
    have: usize,
    asked: usize,
}

impl Count {
    fn of<'a>(told: impl Iterator<Item = &'a Told>, what: Asked) -> Self {
        told.filter(|told| told.asked.contains(&what)).fold(Self::default(), |count, told| Self {
            have: count.have + usize::from(!told.missing.iter().any(|m| m.asked() == what)),
            asked: count.asked + 1,
        })
    }

    fn words(self, what: &str) -> String {
        format!("{} of {} {what}", self.have, self.asked)
    }

    fn cell(self) -> String {
        if self.asked == 0 { "-".to_owned() } else { format!("{}/{}", self.have, self.asked) }
    }
}

fn table(items: &[Item], told: &[Told]) {
    let mut modules: BTreeMap<&str, Vec<&Told>> = BTreeMap::new();
    for (item, told) in items.iter().zip(told) {
        modules.entry(&item.module).or_default().push(told);
    }
    let row = |cells: [&str; 6]| {
        let [module, items, docs, errors, shown, source] = cells;
        println!("{module:<31} {items:>5} {docs:>11} {errors:>9} {shown:>9} {source:>9}");
    };
    row(["module", "items", "documented", "errors", "shown", "source"]);
    for (module, told) in modules {
        let cell = |what| Count::of(told.iter().copied(), what).cell();
        row([
            module,
            &told.len().to_string(),
            &cell(Asked::Docs),
            &cell(Asked::Errors),
            &cell(Asked::Example),
            &cell(Asked::Source),
        ]);
    }
}
