//! The results, as text and as JSON.

use std::fmt;
use std::time::Duration;

use proverbs::Context;
use proverbs::bounded::Mtu;
use serde_json::{Value, json};

use crate::options::{Options, name};
use crate::perftest::Rates;
use crate::stats::Latencies;

/// The result of one size.
pub struct Row {
    pub size: usize,
    pub result: Measured,
}

pub enum Measured {
    /// `arrived` is `None` if the server does not count.
    Bandwidth {
        iters: u32,
        arrived: Option<u64>,
        time: Duration,
    },
    Latency {
        iters: u32,
        all: Latencies,
    },
}

impl Row {
    pub fn bandwidth(size: usize, iters: u32, arrived: Option<u64>, time: Duration) -> Row {
        Row { size, result: Measured::Bandwidth { iters, arrived, time } }
    }

    pub fn latency(size: usize, iters: u32, all: Latencies) -> Row {
        Row { size, result: Measured::Latency { iters, all } }
    }

    /// For perftest, whose protocol does not include latencies.
    pub fn rates(&self) -> Rates {
        match self.result {
            Measured::Bandwidth { iters, time, .. } => {
                let average = mib_per_s(self.size, iters, time);
                let (size, iters, messages) = (self.size as u64, iters.into(), mpps(iters, time));
                // The peak is not measured separately.
                Rates { size, iters, peak: average, average, messages }
            }
            Measured::Latency { .. } => Rates::default(),
        }
    }

    fn json(&self) -> Value {
        match &self.result {
            Measured::Bandwidth { iters, arrived, time } => json!({
                "size_bytes": self.size,
                "iterations": iters,
                "arrived": arrived,
                "seconds": time.as_secs_f64(),
                "bandwidth_mib_per_s": mib_per_s(self.size, *iters, *time),
                "message_rate_mpps": mpps(*iters, *time),
            }),
            Measured::Latency { iters, all } => json!({
                "size_bytes": self.size,
                "iterations": iters,
                "t_min_us": all.min(),
                "t_median_us": all.median(),
                "t_mean_us": all.mean(),
                "t_stdev_us": all.deviation(),
                "t_99_us": all.percentile(99.0),
                "t_99_9_us": all.percentile(99.9),
                "t_max_us": all.max(),
            }),
        }
    }
}

fn mpps(iters: u32, time: Duration) -> f64 {
    f64::from(iters) / time.as_secs_f64() / 1e6
}

/// The bandwidth. 1 MiB is 2^20 bytes, which perftest calls MB.
fn mib_per_s(size: usize, iters: u32, time: Duration) -> f64 {
    size as f64 * f64::from(iters) / time.as_secs_f64() / f64::from(1 << 20)
}

/// The client's results.
pub struct Report {
    device: String,
    mtu: Mtu,
    options: Options,
    pub rows: Vec<Row>,
}

impl Report {
    pub fn new(options: &Options, context: &Context, mtu: Mtu, rows: Vec<Row>) -> Report {
        Report { device: context.name(), mtu, options: options.clone(), rows }
    }

    /// "RC write latency on loop1".
    pub fn title(&self) -> String {
        let (verb, connection) = (name(self.options.verb), name(self.options.connection));
        let what = if self.options.lat { "latency" } else { "bandwidth" };
        format!("{connection} {verb} {what} on {}", self.device)
    }

    pub fn json(&self) -> Value {
        let options = &self.options;
        json!({
            "device": self.device,
            "both_ends_in_this_process": options.local,
            "verb": name(options.verb),
            "connection": name(options.connection),
            "test": if options.lat { "latency" } else { "bandwidth" },
            "mtu_bytes": self.mtu.bytes(),
            "tx_depth": options.tx_depth,
            "cq_mod": options.cq_mod(),
            "post_list": options.post_list,
            "inline_size_bytes": options.inline_size,
            "results": self.rows.iter().map(Row::json).collect::<Vec<Value>>(),
        })
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let options = &self.options;
        let Options { tx_depth, post_list, inline_size, .. } = options;
        let (mtu, cq_mod) = (self.mtu.bytes(), options.cq_mod());
        writeln!(f, "{}", self.title())?;
        writeln!(
            f,
            "MTU {mtu} bytes, TX depth {tx_depth}, CQ moderation {cq_mod}, post list {post_list}, \
             inline up to {inline_size} bytes"
        )?;
        if options.lat {
            writeln!(
                f,
                "{:>9} {:>10} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}   [us]",
                "bytes", "iters", "min", "median", "mean", "stdev", "99%", "99.9%", "max"
            )?;
        } else {
            writeln!(
                f,
                "{:>9} {:>10} {:>10} {:>14} {:>16}",
                "bytes", "iters", "arrived", "average[MiB/s]", "msg rate[Mpps]"
            )?;
        }
        for Row { size, result } in &self.rows {
            match result {
                Measured::Bandwidth { iters, arrived, time } => writeln!(
                    f,
                    "{size:>9} {iters:>10} {:>10} {:>14.2} {:>16.6}",
                    arrived.map_or("?".into(), |arrived| arrived.to_string()),
                    mib_per_s(*size, *iters, *time),
                    mpps(*iters, *time)
                )?,
                Measured::Latency { iters, all } => writeln!(
                    f,
                    "{size:>9} {iters:>10} {:>9.2} {:>9.2} {:>9.2} {:>9.2} {:>9.2} {:>9.2} {:>9.2}",
                    all.min(),
                    all.median(),
                    all.mean(),
                    all.deviation(),
                    all.percentile(99.0),
                    all.percentile(99.9),
                    all.max()
                )?,
            }
        }
        Ok(())
    }
}
