//! Time, for information: some rows under criterion, the stub's part included.
//!
//! Forms cannot be called for ever: what they post must be forgotten now and then, and that is not
//! timed. So the clock runs over as many calls as the stub's ring has room for.

use std::time::{Duration, Instant};

use criterion::Criterion;

use crate::family::{Family, Row, all as families};
use crate::run::{Contender, contenders, forget};
use crate::stub::{Library, Stub};

/// What is timed: posts of one, of four, of four different ones, a receive, and the whole cycle.
const ROWS: [&str; 7] = ["write", "inline_write", "chain4", "mixed4", "recv1", "cycle", "cycle4"];
/// Those of them that are timed where buffers know that the device has them: posted again before
/// its completion, such a buffer is a stranger, and the cold path would be timed.
const OF_MARKED: [&str; 3] = ["inline_write", "cycle", "cycle4"];

fn is_timed(family: &Family, row: &Row) -> bool {
    let marks = family.signal_all && family.twins.contains(&"c2");
    if marks { OF_MARKED.contains(&row.name) } else { ROWS.contains(&row.name) }
}

/// Bytes of the stub's ring that a round may fill, and calls that it has at most.
const RING: usize = 32 << 10;
const MOST: u64 = 256;

/// Times the rows; criterion prints them, and writes its estimates to `$CRITERION_HOME`.
pub fn all(stub: &Stub, libraries: &[Library]) -> Result<(), String> {
    let mut criterion = Criterion::default()
        .without_plots()
        .sample_size(30)
        .warm_up_time(Duration::from_millis(100))
        .measurement_time(Duration::from_millis(400));
    for family in families(stub) {
        for row in family.rows.iter().filter(|row| is_timed(&family, row)) {
            for contender in contenders(&family, row, libraries)? {
                let round = round(stub, family.signal_all, row, &contender)?;
                let mut group = criterion.benchmark_group(format!("{}/{}", family.name, row.name));
                group.bench_function(contender.name.replace('/', " "), |bencher| {
                    bencher.iter_custom(|calls| {
                        time(stub, family.signal_all, &contender, calls, round)
                    });
                });
                group.finish();
            }
        }
    }
    Ok(())
}

/// How many calls fit into a round.
fn round(stub: &Stub, signal_all: bool, row: &Row, contender: &Contender) -> Result<u64, String> {
    stub.reset(signal_all);
    // SAFETY: the form's own environment.
    if unsafe { (contender.form)(contender.env) } != 0 {
        return Err(format!("{}/{} failed", row.name, contender.name));
    }
    let bytes = stub.image().len();
    forget(contender);
    Ok((RING / bytes.max(1)).clamp(1, MOST as usize) as u64)
}

/// The time of `calls` calls.
fn time(stub: &Stub, all: bool, contender: &Contender, mut calls: u64, round: u64) -> Duration {
    let mut total = Duration::ZERO;
    while calls > 0 {
        let now = calls.min(round);
        stub.reset(all);
        let start = Instant::now();
        for _ in 0..now {
            // SAFETY: the form's own environment.
            unsafe { (contender.form)(contender.env) };
        }
        total += start.elapsed();
        forget(contender);
        calls -= now;
    }
    total
}
