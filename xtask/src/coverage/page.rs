//! COVERAGE.md, and how much it covers.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::headers::{Declared, HEADERS};
use super::{Kind, Names, Place, Places};

const HEAD: &str = "# What of the C API is here

Made by `cargo xtask coverage` from `tests/coverage.toml`, which it holds against the installed
headers, the newest that Debian has, and the public items of this crate. The counts are without
rsocket.h.

What no software device has (neither Soft-RoCE nor siw nor this crate's own) is left out, since no
test could run it. Of congestion no field is in these headers: hnsdv.h, of one provider, has the
algorithm of a queue pair, and the kernel has the counters (`hw_counters` of sysfs). What a program
sets by verbs is here: the ECN bits are in `device::GlobalRoute` (`traffic_class`), the rate is
`QueuePair::limit_rate`, and the vendor's options are `QueuePair::set_ece`.
";

/// Sockets over rdma_cm, which are counted apart: another interface, all of it or nothing.
const APART: &str = "rdma/rsocket.h";

/// How many names of a kind are here, in a form of their own, and missing.
fn counts(names: &Names, places: &Places, kind: Kind) -> [usize; 3] {
    let count = |wanted: Place| {
        let of_kind = |declared: &Declared| declared.kind == kind && declared.header != APART;
        let all = names.iter().filter(|(_, declared)| of_kind(declared));
        let found = all.filter(|(name, _)| places.get(*name).is_some_and(|at| at[0].0 == wanted));
        found.count()
    };
    [Place::Here, Place::Own, Place::Not].map(count)
}

/// The counts of functions, in a line.
pub fn summary(names: &Names, places: &Places) -> String {
    let [here, own, not] = counts(names, places, Kind::Function);
    let all = here + own + not;
    format!("{} of {all} functions have a form here, {not} have none", here + own)
}

pub fn make(names: &Names, places: &Places) -> String {
    let mut page =
        format!("{HEAD}\n| | here | in another form | not | of |\n|---|--:|--:|--:|--:|\n");
    let kinds =
        [("functions", Kind::Function), ("constants", Kind::Constant), ("fields", Kind::Field)];
    for (what, kind) in kinds {
        let [here, own, not] = counts(names, places, kind);
        let all = here + own + not;
        line(&mut page, format_args!("| {what} | {here} | {own} | {not} | {all} |"));
    }
    for (header, _) in HEADERS {
        let of_header = |kind: Kind| {
            names
                .iter()
                .filter(move |(_, declared)| declared.header == header && declared.kind == kind)
        };
        line(&mut page, format_args!("\n## {header}"));
        if of_header(Kind::Function).next().is_some() {
            line(&mut page, format_args!("\n| function | where, or why not |\n|---|---|"));
        }
        for (name, _) in of_header(Kind::Function) {
            line(&mut page, format_args!("| `{name}` | {} |", told(&places[name])));
        }
        // Those of one enum or struct that are in one place are in one line.
        let mut groups: BTreeMap<(&str, String), Vec<&str>> = BTreeMap::new();
        for (name, declared) in of_header(Kind::Constant).chain(of_header(Kind::Field)) {
            let short = name.strip_prefix(&format!("{}.", declared.of)).unwrap_or(name);
            groups.entry((&declared.of, told(&places[name]))).or_default().push(short);
        }
        if !groups.is_empty() {
            line(&mut page, format_args!("\n| in | names | where, or why not |\n|---|---|---|"));
        }
        for ((of, told), short) in groups {
            line(&mut page, format_args!("| {of} | {} | {told} |", short.join(" ")));
        }
    }
    page
}

/// Where a name is, or why not.
fn told(all: &[(Place, String)]) -> String {
    let told = all.iter().map(|(place, what)| match place {
        Place::Here | Place::Own => {
            what.split(", ").map(|path| format!("`{path}`")).collect::<Vec<_>>().join(", ")
        }
        Place::Not | Place::Inner => what.clone(),
    });
    told.collect::<Vec<_>>().join("; ")
}

fn line(page: &mut String, text: std::fmt::Arguments<'_>) {
    // Writing to a String does not fail.
    let _ = writeln!(page, "{text}");
}
