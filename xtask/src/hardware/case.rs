//! What is measured, as options of perftest's programs and of our perf, and what they print.

use std::fmt;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Who wrote the programs at both ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Whose {
    Perftest,
    Ours,
}

impl fmt::Display for Whose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Whose::Perftest => "perftest",
            Whose::Ours => "ours",
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Verb {
    Send,
    Write,
    Read,
    FetchAdd,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Connection {
    Rc,
    Ud,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kind {
    /// The median, µs.
    Latency,
    /// Of large messages, MiB/s; of small ones, as a rate, thousands of messages a second.
    Bandwidth,
    Rate,
}

/// A measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Case {
    pub kind: Kind,
    connection: Connection,
    verb: Verb,
    size: u32,
}

const fn case(kind: Kind, connection: Connection, verb: Verb, size: u32) -> Case {
    Case { kind, connection, verb, size }
}

pub const ALL: [Case; 10] = {
    use {Connection::*, Kind::*, Verb::*};
    [
        case(Latency, Rc, Send, 64),
        case(Latency, Rc, Write, 64),
        case(Latency, Rc, Read, 64),
        case(Latency, Rc, FetchAdd, 8),
        case(Latency, Ud, Send, 64),
        case(Bandwidth, Rc, Send, 65536),
        case(Bandwidth, Rc, Write, 65536),
        case(Bandwidth, Rc, Read, 65536),
        case(Rate, Rc, Send, 64),
        case(Rate, Rc, Write, 64),
    ]
};

/// What one run found, in the unit of its kind, and the 99th percentile of latencies, µs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figures {
    pub value: f64,
    pub slowest: Option<f64>,
}

impl Case {
    pub fn unit(&self) -> &'static str {
        match self.kind {
            Kind::Latency => "µs",
            Kind::Bandwidth => "MiB/s",
            Kind::Rate => "k/s",
        }
    }

    /// The program and its options, but for the device and the peer.
    pub fn words(&self, whose: Whose, iterations: u32) -> (String, Vec<String>) {
        let connection = match self.connection {
            Connection::Rc => "RC",
            Connection::Ud => "UD",
        };
        let is_latency = self.kind == Kind::Latency;
        let mut options = vec!["-c".to_owned(), connection.to_owned()];
        options.extend(["-n".to_owned(), iterations.to_string()]);
        if self.verb != Verb::FetchAdd {
            options.extend(["-s".to_owned(), self.size.to_string()]);
        }
        // Each has a default of its own: none, or a few hundred bytes.
        if matches!(self.verb, Verb::Send | Verb::Write) {
            let most = if self.size <= 64 { self.size } else { 0 };
            options.extend(["-I".to_owned(), most.to_string()]);
        }
        match whose {
            Whose::Perftest => {
                let verb = match self.verb {
                    Verb::Send => "send",
                    Verb::Write => "write",
                    Verb::Read => "read",
                    Verb::FetchAdd => "atomic",
                };
                // Its warning about the processor's frequency is no result.
                options.push("-F".to_owned());
                (format!("ib_{verb}_{}", if is_latency { "lat" } else { "bw" }), options)
            }
            Whose::Ours => {
                let verb = match self.verb {
                    Verb::Send => "send",
                    Verb::Write => "write",
                    Verb::Read => "read",
                    Verb::FetchAdd => "fetch-add",
                };
                options.extend(["-V".to_owned(), verb.to_owned(), "--json".to_owned()]);
                if is_latency {
                    options.push("--lat".to_owned());
                }
                ("perf".to_owned(), options)
            }
        }
    }

    /// What a client printed.
    pub fn figures(&self, whose: Whose, said: &str) -> Result<Figures> {
        match whose {
            Whose::Perftest => self.of_perftest(said),
            Whose::Ours => self.of_ours(said),
        }
        .with_context(|| format!("{whose} printed no result, but: {}", said.trim()))
    }

    /// The line behind that of the columns' names: bytes, iterations, and what was measured.
    fn of_perftest(&self, said: &str) -> Option<Figures> {
        let mut lines = said.lines().skip_while(|line| !line.trim_start().starts_with("#bytes"));
        let numbers = lines.nth(1)?.split_whitespace().map(|word| word.parse::<f64>().ok());
        let numbers = numbers.collect::<Option<Vec<f64>>>()?;
        let number = |at: usize| numbers.get(at).copied();
        Some(match self.kind {
            // t_min, t_max, t_typical, t_avg, t_stdev, 99 %, 99.9 %
            Kind::Latency => Figures { value: number(4)?, slowest: Some(number(7)?) },
            // Peak, average, rate in millions.
            Kind::Bandwidth => Figures { value: number(3)?, slowest: None },
            Kind::Rate => Figures { value: number(4)? * 1000.0, slowest: None },
        })
    }

    fn of_ours(&self, said: &str) -> Option<Figures> {
        // Notes may stand before it and behind it.
        let json = serde_json::Deserializer::from_str(&said[said.find('{')?..]);
        let json: Value = json.into_iter().next()?.ok()?;
        let number = |name: &str| json["results"][0][name].as_f64();
        Some(match self.kind {
            Kind::Latency => {
                Figures { value: number("t_median_us")?, slowest: Some(number("t_99_us")?) }
            }
            Kind::Bandwidth => Figures { value: number("bandwidth_mib_per_s")?, slowest: None },
            Kind::Rate => Figures { value: number("message_rate_mpps")? * 1000.0, slowest: None },
        })
    }
}

/// "RC WRITE, 64 bytes, latency".
impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let connection = match self.connection {
            Connection::Rc => "RC",
            Connection::Ud => "UD",
        };
        let verb = match self.verb {
            Verb::Send => "SEND",
            Verb::Write => "WRITE",
            Verb::Read => "READ",
            Verb::FetchAdd => "FETCH_AND_ADD",
        };
        let kind = match self.kind {
            Kind::Latency => "latency",
            Kind::Bandwidth => "bandwidth",
            Kind::Rate => "rate",
        };
        write!(f, "{connection} {verb}, {} bytes, {kind}", self.size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_are_understood() {
        let said = " #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    \
                    t_stdev[usec]   99% percentile[usec]   99.9% percentile[usec] \n 64      1000          \
                    1.08           6.91         1.11    \t      1.12        \t0.10   \t\t1.34    \t\t6.91   \n\
                    ------\n";
        let figures = ALL[0].figures(Whose::Perftest, said).expect("a line");
        assert_eq!(figures, Figures { value: 1.11, slowest: Some(1.34) });
        let said = " #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]\n \
                    64         5000             312.05             311.99 \t\t     5.250000\n";
        assert_eq!(ALL[9].figures(Whose::Perftest, said).expect("a line").value, 5250.0);
        assert_eq!(ALL[6].figures(Whose::Perftest, said).expect("a line").value, 311.99);
        let said = "a note\n{\"results\": [{\"t_median_us\": 1.5, \"t_99_us\": 2.5}]}\nanother\n";
        let figures = ALL[0].figures(Whose::Ours, said).expect("JSON");
        assert_eq!(figures, Figures { value: 1.5, slowest: Some(2.5) });
        let said = r#"{"results": [{"bandwidth_mib_per_s": 9.5, "message_rate_mpps": 0.25}]}"#;
        assert_eq!(ALL[5].figures(Whose::Ours, said).expect("JSON").value, 9.5);
        assert_eq!(ALL[8].figures(Whose::Ours, said).expect("JSON").value, 250.0);
        for whose in [Whose::Ours, Whose::Perftest] {
            let error = ALL[0].figures(whose, "no device\n").expect_err("no result");
            assert!(error.to_string().ends_with("no result, but: no device"), "{error}");
        }
    }
}
