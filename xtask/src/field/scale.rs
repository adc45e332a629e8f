//! `cargo xtask scale`: bytes on top of C's, and what ten thousand queue pairs on one completion
//! queue cost a post.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;

use anyhow::{Context, Result, ensure};

use super::build;
use crate::progress::Step;
use crate::setup::{self, Group};
use crate::sh::{self, Run, cmd};
use crate::wrap::wrap;

#[derive(clap::Args)]
pub struct Args {
    /// Record the tables in benches/field/SCALE.md.
    #[arg(long)]
    record: bool,
    /// Count the program as it was built last.
    #[arg(long)]
    as_built: bool,
}

/// What the program printed, and what callgrind counted.
#[derive(Default)]
struct Scale {
    /// Bytes by what they are for.
    bytes: BTreeMap<String, f64>,
    /// Instructions by form and work, and by queue pairs.
    growth: BTreeMap<String, BTreeMap<u32, f64>>,
    /// Loads and stores that miss the data cache, by the same.
    misses: BTreeMap<String, BTreeMap<u32, f64>>,
    /// The least and the median time of a cycle, in ns, by form and by queue pairs.
    times: BTreeMap<String, BTreeMap<u32, [f64; 2]>>,
}

pub fn main(args: &Args) -> Result<()> {
    setup::ensure(&[Group::Build, Group::Valgrind])?;
    let stub = build::stub()?;
    let counted = build::counted(&stub, "scale", build::RELEASE, args.as_built)?;
    let mut scale = Scale::default();
    for line in counted.said.lines().filter_map(|line| line.strip_prefix("bytes ")) {
        let (what, number) = line.split_once(' ').context("bytes WHAT NUMBER")?;
        scale.bytes.insert(what.to_owned(), number.parse()?);
    }
    for ((label, each), accesses) in counted.each.into_iter().zip(counted.accesses) {
        let (work, pairs) = label.rsplit_once('/').context("growth/FORM/WORK/PAIRS")?;
        let pairs = pairs.parse()?;
        scale.growth.entry(work.to_owned()).or_default().insert(pairs, each);
        scale.misses.entry(work.to_owned()).or_default().insert(pairs, accesses.misses);
    }
    scale.times = times(&stub)?;
    let text = table(&scale)?;
    println!("{text}");
    if args.record {
        fs::write(build::directory().join("SCALE.md"), wrap(&text))
            .context("cannot write SCALE.md")?;
    }
    check(&scale)
}

/// Runs the program as it was built, on one processor, for what a cycle takes.
fn times(stub: &build::Stub) -> Result<BTreeMap<String, BTreeMap<u32, [f64; 2]>>> {
    let program = build::program("scale", build::RELEASE, true)?;
    let step = Step::start("Timing the cycles, a batch of each form in turn");
    let said = cmd!(sh::here(), "taskset -c 1 {program} --time").envs(stub.env()).text()?;
    let mut all = BTreeMap::<_, BTreeMap<_, _>>::new();
    for line in said.lines().filter_map(|line| line.strip_prefix("time growth/")) {
        let mut words = line.split([' ', '/']);
        let mut word = || words.next().context("time growth/FORM/PAIRS LEAST MEDIAN");
        let (form, pairs) = (word()?.to_owned(), word()?.parse()?);
        let times = [word()?.parse()?, word()?.parse()?];
        all.entry(form).or_default().insert(pairs, times);
    }
    ensure!(!all.is_empty(), "no times");
    step.done("least and median of 301 batches");
    Ok(all)
}

/// A post or a poll among many queue pairs costs what it costs with one.
fn check(scale: &Scale) -> Result<()> {
    ensure!(!scale.growth.is_empty(), "nothing was counted");
    for (work, counts) in &scale.growth {
        let (one, most) = (counts.values().next(), counts.values().last());
        ensure!(
            most <= one,
            "{work} grows with the queue pairs: {one:?} instructions with one, {most:?} with all"
        );
    }
    Ok(())
}

fn table(scale: &Scale) -> Result<String> {
    let bytes = |what: &str| {
        let found = scale.bytes.get(what).with_context(|| format!("no bytes of {what}"))?;
        Ok::<String, anyhow::Error>(format!("{found:.0}"))
    };
    let mut text = format!(
        "# Memory and growth\n\nMade by `cargo xtask scale --record`; do not edit.\n\n\
         ## Bytes on top of C's\n\nWhat this crate allocates for an RC queue pair besides the provider's own memory, \
         heap and handle, each queue with its own books; averaged over 1000 of them on one completion queue.\n\n\
         | | every work request completes | selective signaling |\n|---|--:|--:|\n\
         | a queue pair | {} | {} |\n| each slot of its send queue | {} | {} |\n\n\
         A slot is an outstanding work request's: with selective signaling a ring keeps a word or two for each, and has \
         room for the longest list besides, which is the 4 kB of a queue pair; else the wr_id is all there is, as it is for receives. A buffer has a header of {} bytes besides its payload; what a program \
         moves is a handle of {}.\n\n",
        bytes("owned-pair")?,
        bytes("selective-pair")?,
        bytes("owned-slot")?,
        bytes("selective-slot")?,
        bytes("buffer")?,
        bytes("handle")?,
    );
    text += "## Growth\n\nInstructions of a post, and of a poll with its completion, with so many queue pairs on one \
             completion queue (each has its turn, and a buffer of its own; *post-moved*: one buffer for all, which comes \
             from another queue each time; *again*: each queue pair has one outstanding, and the buffer of the one that \
             completes is posted there again, a poll and a post in one; with the look-up of the queue pair in an array, and refills of credits; C has \
             an array too, whose index is the wr_id, and counts the room of each queue):\n\n";
    text += &by_pairs(&scale.growth, |_, count| format!("{count:.1}"));
    text += "\nAccesses among these that miss a data cache of 32 KiB (8 ways, lines of 64 bytes), as callgrind \
             simulates it, the provider's apart: lines of the queue pair, of its counter, of the buffer's header, of \
             C's ibv_qp, and of the array of handles. C's are its entry and the ibv_qp. What a program touches \
             that posts again what completed (*again*) are four lines, and C's two.\n\n";
    text += &by_pairs(&scale.misses, |_, count| format!("{count:.1}"));
    text += "\nTime of a post and its poll in ns, the stub's part included: the least of 301 batches of a thousand, and their \
             median, on one processor, a batch of each in turn; and the least as a multiple of C's. Recorded, never gated.\n\n";
    let c = scale.times.get("C").context("no times of C")?;
    text += &by_pairs(&scale.times, |pairs, [least, median]| {
        let ratio = c.get(&pairs).map_or(f64::NAN, |[c, _]| least / c);
        format!("{least:.1}, {median:.1} ({ratio:.2})")
    });
    text += BOOKING;
    Ok(text)
}

/// What a completion queue has to have room for (R9.7).
const BOOKING: &str = "\n## Room in a completion queue\n\n\
    Devices free slots before their completions are polled (R9.7), so a completion queue cannot overrun only if it has room for \
    all that may be outstanding: each queue pair books the depth of both its queues, and one for the sentinel of a drain. So \
    as many queue pairs as a completion queue holds depths of:\n\n\
    | depth, sends and receives | entries a queue pair | on 32,767 entries (Soft-RoCE's most) | on 4,194,303 (mlx5's) |\n\
    |---|--:|--:|--:|\n\
    | 16 and 16 | 33 | 992 | 127,100 |\n\
    | 128 and 128 | 257 | 127 | 16,320 |\n\
    | 128, receives shared | 129 | 254 | 32,513 |\n\n\
    A shared receive queue books once, however many queue pairs it feeds (the last row leaves its entries out). What else \
    shares room, and what it would cost, is in DESIGN.md.\n";

/// A table with a column for each count of queue pairs.
fn by_pairs<T>(
    all: &BTreeMap<String, BTreeMap<u32, T>>,
    show: impl Fn(u32, &T) -> String,
) -> String {
    let pairs: BTreeSet<u32> = all.values().flat_map(|it| it.keys()).copied().collect();
    let heads: Vec<String> = pairs.iter().map(u32::to_string).collect();
    let mut text = format!("| | {} |\n|---|{}\n", heads.join(" | "), "--:|".repeat(pairs.len()));
    for (work, counts) in all {
        let cell = |pairs: &u32| counts.get(pairs).map_or("-".into(), |it| show(*pairs, it));
        let cells: Vec<String> = pairs.iter().map(cell).collect();
        let name = work.trim_start_matches("growth/").replace('/', ", ");
        let _ = writeln!(text, "| {name} | {} |", cells.join(" | "));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_is_an_error() {
        let with = |most| {
            let counts = BTreeMap::from([(1, 40.0), (10_000, most)]);
            Scale { growth: BTreeMap::from([("post".into(), counts)]), ..Scale::default() }
        };
        assert!(check(&with(40.0)).is_ok());
        assert!(check(&with(41.0)).is_err());
        assert!(check(&Scale::default()).is_err());
    }
}
