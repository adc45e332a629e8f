//! What the runs said, in pairs, and their ratios with their spread.

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

/// All runs of one thing: its name and mode, and the numbers of C and of Rust in the order of the runs.
pub type Runs = Vec<Run>;

/// One thing that was measured, in one mode.
#[derive(Debug, PartialEq)]
pub struct Run {
    /// `latency`, or `chain4`.
    pub what: String,
    /// `polled` or `events`.
    pub mode: String,
    pub c: Vec<f64>,
    pub rust: Vec<f64>,
}

/// What `compare.sh` printed: latencies in µs, rates as messages a second.
pub fn parse(said: &str) -> Result<Runs> {
    let mut messages = None;
    let mut runs: Runs = Vec::new();
    for line in said.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let number = |text: &str| text.parse::<f64>().with_context(|| format!("`{line}`"));
        match words[..] {
            ["messages", count] => messages = Some(number(count)?),
            [what, mode, language, value] => {
                let value = number(value)?;
                let value = match what {
                    "latency" => value,
                    _ => messages.context("the count of messages comes first")? / value,
                };
                let at = runs.iter().position(|run| run.what == what && run.mode == mode);
                let at = at.unwrap_or_else(|| {
                    let (what, mode) = (what.to_owned(), mode.to_owned());
                    runs.push(Run { what, mode, c: Vec::new(), rust: Vec::new() });
                    runs.len() - 1
                });
                let list = if language == "c" { &mut runs[at].c } else { &mut runs[at].rust };
                list.push(value);
            }
            _ => bail!("`{line}` is not a line of compare.sh"),
        }
    }
    Ok(runs)
}

/// Everything that one call gave.
#[derive(Serialize, Deserialize)]
pub struct Results {
    pub device: String,
    pub pairs: usize,
    pub measured: Vec<Measured>,
}

/// One thing in one mode: medians, and the ratio of Rust to C in each pair.
#[derive(Serialize, Deserialize)]
pub struct Measured {
    pub what: String,
    pub mode: String,
    /// µs a round trip, or messages a second.
    pub c: f64,
    pub rust: f64,
    /// Least, median and greatest of the pairs' ratios. For latency and for rate alike, above 1 is better for
    /// Rust.
    pub ratio: [f64; 3],
}

/// Medians and ratios.
pub fn results(runs: &Runs, device: String) -> Result<Results> {
    let pairs = runs.first().map_or(0, |run| run.c.len());
    let measured = runs.iter().map(|run| {
        if run.c.len() != pairs || run.rust.len() != pairs || pairs == 0 {
            bail!("{} {} has no pair for each run", run.what, run.mode);
        }
        let ratio =
            |(c, rust): (&f64, &f64)| if run.what == "latency" { c / rust } else { rust / c };
        let ratios: Vec<f64> = run.c.iter().zip(&run.rust).map(ratio).collect();
        let (what, mode) = (run.what.clone(), run.mode.clone());
        let (c, rust) = (sorted(&run.c)[1], sorted(&run.rust)[1]);
        Ok(Measured { what, mode, c, rust, ratio: sorted(&ratios) })
    });
    Ok(Results { device, pairs, measured: measured.collect::<Result<_>>()? })
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

    const SAID: &str = "messages 100\nlatency polled c 20\nlatency polled rust 10\n\
                        chain4 events c 2\nchain4 events rust 4\n";

    #[test]
    fn more_than_one_is_better_for_rust() {
        let results = results(&parse(SAID).expect("lines"), "a device".into()).expect("pairs");
        assert_eq!(results.measured[0].ratio, [2.0; 3]);
        assert_eq!((results.measured[1].c, results.measured[1].rust), (50.0, 25.0));
        assert_eq!(results.measured[1].ratio, [0.5; 3]);
    }

    #[test]
    fn a_run_without_its_pair_is_an_error() {
        let said = "messages 1\nlatency polled c 20\n";
        assert!(results(&parse(said).expect("lines"), String::new()).is_err());
    }
}
