//! `cargo xtask rate`: C and Rust in turn on Soft-RoCE in the guest: latency, and message rate with
//! chains.

use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use crate::setup::Group;
use crate::sh::{self, Run, cmd};
use crate::soft_roce::{self, Accel, Guest};
use crate::wrap::wrap;
use crate::{cargo, paths, setup};

#[derive(clap::Args)]
pub struct Args {
    /// Pairs of runs, C and Rust in turn.
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u32).range(5..))]
    pairs: u32,
    /// Measure on this machine, with this RDMA device, instead of in a guest.
    #[arg(long, value_name = "NAME", conflicts_with = "record")]
    device: Option<String>,
    /// Record the table in benches/rate/RESULTS.md.
    #[arg(long)]
    record: bool,
}

const HEAD: &str = "\
# Latency and message rate, emulated

C and Rust in turn on the same device, the order alternating. **Emulated**: the processor, and so every number; what
counts is the ratio. A clock of instructions repeats, whatever else the host does; real time does not. Latency: a round
trip of `rc_pingpong` with 64 bytes, both ends in one language. Rate: WRITEs of 64 bytes in chains, window 64, only the
last of a chain signaled; on rxe a post is a system call, however long its chain. Made by `cargo xtask rate --record`;
do not edit.

";

/// Of two kinds.
const IN_GUEST: &str = "emulated (QEMU): one processor, whose clock counts instructions, a nanosecond each; \
    polled latency, for which both ends need a processor, with two of them in real time";

pub fn main(args: &Args) -> Result<()> {
    setup::ensure(&[Group::Build, Group::Guest])?;
    let dir = paths::workspace().join("benches/rate");
    let runs = parse(&run(&dir, args)?)?;
    let device = match &args.device {
        Some(device) => format!("device {device} of this machine"),
        None => format!("Linux {}, rdma_rxe, {IN_GUEST}", soft_roce::kernel()?.release),
    };
    let text = render(&runs, &device)?;
    println!("{text}");
    if args.record {
        fs::write(dir.join("RESULTS.md"), wrap(&text))
            .context("cannot write benches/rate/RESULTS.md")?;
    }
    Ok(())
}

/// Builds both, runs them in turn, and gives what was printed.
fn run(dir: &Path, args: &Args) -> Result<String> {
    let rate_c = paths::below_target("rate")?.join("rate");
    cmd!(sh::at(dir), "gcc -std=gnu11 -O2 -Wall -Wextra -o {rate_c} rate.c -libverbs")
        .step("Compiling the C program")?;
    let build = |what, args: &[&str], name| {
        cargo::named(&cargo::executables(what, &[&["build", "--release"], args].concat())?, name)
    };
    let pingpong = build("Building rc_pingpong", &["--example", "rc_pingpong"], "rc_pingpong")?;
    let rate = build("Building the Rust program", &["-p", "proverbs-rate"], "proverbs-rate")?;
    let examples = pingpong.parent().context("an example is in a directory")?;
    let compare = |part: &str| {
        format!(
            "sh {}/compare.sh {} {} {} {} {part} >\"$PROVERBS_GUEST_OUT/rate.txt\"",
            dir.display(),
            examples.display(),
            rate.display(),
            rate_c.display(),
            args.pairs,
        )
    };
    if let Some(device) = &args.device {
        return said(soft_roce::on_device(device, &["sh", "-c", &compare("all")])?);
    }
    let in_guest = |accel, part| {
        let guest = Guest { timeout: Duration::from_secs(1800), accel, ..Guest::default() };
        said(soft_roce::run(&guest, &["sh", "-c", &compare(part)])?)
    };
    // Who polls for the other end occupies a processor, of which a guest whose clock counts
    // instructions has one.
    Ok(in_guest(None, "polled-latency")? + &in_guest(Some(Accel::Counted), "others")?)
}

/// What the runs that ended with `code` printed.
fn said(code: i32) -> Result<String> {
    ensure!(code == 0, "the runs failed with code {code}");
    let said = soft_roce::out_dir()?.join("rate.txt");
    fs::read_to_string(&said).with_context(|| format!("cannot read {}", said.display()))
}

/// What was measured in one mode, and the numbers of C and of Rust in the order of the runs.
struct Runs {
    /// `latency`, or `chain4`.
    what: String,
    /// `polled` or `events`.
    mode: String,
    c: Vec<f64>,
    rust: Vec<f64>,
}

/// What `compare.sh` printed: latencies in µs, rates as messages a second.
fn parse(said: &str) -> Result<Vec<Runs>> {
    let mut messages = None;
    let mut all: Vec<Runs> = Vec::new();
    for line in said.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let number = |text: &str| text.parse::<f64>().with_context(|| format!("`{line}`"));
        match words[..] {
            ["messages", count] => messages = Some(number(count)?),
            [what, mode, language, value] => {
                let value = match what {
                    "latency" => number(value)?,
                    _ => messages.context("the count of messages comes first")? / number(value)?,
                };
                let at = all.iter().position(|runs| runs.what == what && runs.mode == mode);
                let at = at.unwrap_or_else(|| {
                    let (what, mode) = (what.to_owned(), mode.to_owned());
                    all.push(Runs { what, mode, c: Vec::new(), rust: Vec::new() });
                    all.len() - 1
                });
                let list = if language == "c" { &mut all[at].c } else { &mut all[at].rust };
                list.push(value);
            }
            _ => bail!("`{line}` is not a line of compare.sh"),
        }
    }
    Ok(all)
}

/// Medians, and the ratio of Rust to C in each pair.
fn render(all: &[Runs], device: &str) -> Result<String> {
    let pairs = all.first().map_or(0, |runs| runs.c.len());
    let mut text = format!("{HEAD}- {device}\n- {pairs} pairs; medians\n\n");
    text.push_str(
        "| what | mode | C | Rust | ratio, above 1 is better for Rust (least to greatest) |\n",
    );
    text.push_str("|---|---|---|---|---|\n");
    for Runs { what, mode, c, rust } in all {
        let paired = c.len() == pairs && rust.len() == pairs && pairs > 0;
        ensure!(paired, "{what} {mode} has no pair for each run");
        let ratio = |(c, rust)| if what == "latency" { c / rust } else { rust / c };
        let ratios: Vec<f64> = c.iter().zip(rust).map(ratio).collect();
        let [least, median, greatest] = sorted(&ratios);
        let ([_, c, _], [_, rust, _]) = (sorted(c), sorted(rust));
        let (what, unit) = match what.strip_prefix("chain") {
            None => ("latency".to_owned(), "µs"),
            Some(length) => (format!("rate, chains of {length}"), "/s"),
        };
        writeln!(
            text,
            "| {what} | {mode} | {c:.0} {unit} | {rust:.0} {unit} | {median:.2} ({least:.2} to {greatest:.2}) |"
        )?;
    }
    Ok(text)
}

/// Least, median, greatest.
fn sorted(numbers: &[f64]) -> [f64; 3] {
    let mut all = numbers.to_vec();
    all.sort_by(f64::total_cmp);
    [all[0], all[all.len() / 2], all[all.len() - 1]]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_one_is_better_for_rust() {
        let said = "messages 100\nlatency polled c 20\nlatency polled rust 10\nchain4 events c 2\n\
                    chain4 events rust 4\n";
        let text = render(&parse(said).expect("lines"), "a device").expect("pairs");
        assert!(text.contains("| latency | polled | 20 µs | 10 µs | 2.00 "), "{text}");
        assert!(text.contains("| rate, chains of 4 | events | 50 /s | 25 /s | 0.50 "), "{text}");
        let single = parse("messages 1\nlatency polled c 20\n").expect("lines");
        assert!(render(&single, "").is_err(), "a run without its pair");
    }
}
