//! The options, with the same letters as in perftest.

use std::path::PathBuf;

use clap::{Parser, ValueEnum};
use proverbs::bounded::Mtu;

use crate::connect::MAX_INLINE;
use crate::work::{MAX_LIST, NOT_INLINE};
use crate::{Result, perftest};

/// Bandwidth, latency and message rate of verbs
#[derive(Parser, Clone, Debug)]
#[command(name = "perf")]
pub struct Options {
    /// RDMA device; "loopback" runs both ends in this process [default: the first one, or loopback]
    #[arg(short, long = "ib-dev", value_name = "DEVICE", env = "PROVERBS_DEVICE")]
    pub device: Option<String>,
    /// Both ends in this process on a real device too
    #[arg(long)]
    pub local: bool,
    /// Port of the device
    #[arg(short, long, value_name = "PORT", default_value_t = 1,
          value_parser = clap::value_parser!(u8).range(1..))]
    pub ib_port: u8,
    /// Index of the local GID; required on RoCE [default on loopback and with --local: RoCE v2's]
    #[arg(short = 'x', short_alias = 'g', long, value_name = "INDEX", env = "PROVERBS_GID_INDEX")]
    pub gid_index: Option<u8>,
    /// TCP port to listen on or to connect to [default: 18516, with --perftest 18515]
    #[arg(short, long)]
    pub port: Option<u16>,
    /// The other end is a perftest program: ib_send_lat for -V send --lat, ib_write_bw for -V
    /// write, and so on, with the same -c, -n and -s
    #[arg(long, conflicts_with_all = ["local", "all"])]
    pub perftest: bool,
    /// Connect through rdma_cm, like perftest's -R; SERVER is the address of its RDMA network
    /// device
    #[arg(short = 'R', long, requires = "perftest")]
    pub rdma_cm: bool,
    /// The operation to measure
    #[arg(short = 'V', long, value_enum, default_value = "write")]
    pub verb: Verb,
    /// Transport
    #[arg(short, long, value_enum, default_value = "rc", ignore_case = true)]
    pub connection: Connection,
    /// Latency instead of bandwidth and message rate
    #[arg(long)]
    pub lat: bool,
    /// Bytes of a message [default: 65536, UD the MTU; latency 2; atomics always 8]
    #[arg(short, long, value_parser = clap::value_parser!(u32).range(1..))]
    pub size: Option<u32>,
    /// All sizes from 2 bytes to -s, by powers of two
    #[arg(short, long)]
    pub all: bool,
    /// Exchanges
    #[arg(short = 'n', long, default_value_t = 1000,
          value_parser = clap::value_parser!(u32).range(1..))]
    pub iters: u32,
    /// Sends that may be outstanding
    #[arg(short, long, default_value_t = 128, value_parser = clap::value_parser!(u32).range(1..))]
    pub tx_depth: u32,
    /// Receives to post (SEND only)
    #[arg(short, long, default_value_t = 512, value_parser = clap::value_parser!(u32).range(1..))]
    pub rx_depth: u32,
    /// Number of sends per completion [default: 100, or -t if that is less]
    #[arg(short = 'Q', long, value_parser = clap::value_parser!(u32).range(1..))]
    pub cq_mod: Option<u32>,
    /// Work requests of one post
    #[arg(short = 'l', long, default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..=MAX_LIST as i64))]
    pub post_list: u32,
    /// Maximum size of inline messages in bytes
    #[arg(short = 'I', long, value_name = "BYTES", default_value_t = 0,
          value_parser = clap::value_parser!(u32).range(..=MAX_INLINE as i64))]
    pub inline_size: u32,
    /// READs and atomics that may be outstanding [default: the maximum of both devices]
    #[arg(short, long, value_parser = clap::value_parser!(u8).range(1..=128))]
    pub outs: Option<u8>,
    /// Path MTU: 256, 512, 1024, 2048 or 4096 [default: the port's]
    #[arg(short, long, value_parser = mtu)]
    pub mtu: Option<Mtu>,
    /// The result as JSON on standard output
    #[arg(long)]
    pub json: bool,
    /// Latency histogram as SVG
    #[arg(long, value_name = "FILE", requires = "lat")]
    pub svg: Option<PathBuf>,
    /// The server to connect to; without it, this is the server
    #[arg(value_name = "SERVER", conflicts_with = "local")]
    pub server: Option<String>,
}

/// The operation to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Verb {
    Send,
    Write,
    Read,
    FetchAdd,
    CmpSwp,
}

/// The transports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "UPPER")]
pub enum Connection {
    Rc,
    Uc,
    Ud,
}

impl Options {
    /// The checks that clap cannot make.
    pub fn check(&self) -> Result<()> {
        let Options { tx_depth, .. } = *self;
        if let Some(cq_mod) = self.cq_mod.filter(|&cq_mod| cq_mod > tx_depth) {
            let why = format!(
                "a completion every {cq_mod} sends (-Q) never comes with {tx_depth} outstanding: -t {cq_mod}"
            );
            return Err(why.into());
        }
        if self.post_list > tx_depth {
            let list = self.post_list;
            return Err(format!("{list} sends a post (-l) exceed -t {tx_depth}: -t {list}").into());
        }
        if self.rdma_cm && self.connection == Connection::Uc {
            return Err("rdma_cm does not support UC: leave -R out, or use -c RC".into());
        }
        if self.rdma_cm && self.connection == Connection::Ud && self.lat && self.server.is_some() {
            return Err(
                "UD latency with rdma_cm (-R) works only as the server: leave -R out".into()
            );
        }
        let carries = match self.connection {
            Connection::Rc => true,
            Connection::Uc => matches!(self.verb, Verb::Send | Verb::Write),
            Connection::Ud => self.verb == Verb::Send,
        };
        if !carries {
            let (verb, connection) = (name(self.verb), name(self.connection));
            let why = format!(
                "{connection} does not support {verb}: UD has send, UC also write, RC all (R1.1)"
            );
            return Err(why.into());
        }
        let fetches = !matches!(self.verb, Verb::Send | Verb::Write);
        match self.size {
            _ if fetches && self.inline_size > 0 => Err(NOT_INLINE.into()),
            Some(size) if self.is_atomic() && size != 8 => {
                Err(format!("an atomic has 8 bytes, not {size}: leave -s out").into())
            }
            _ if self.is_atomic() && self.all => Err("an atomic has 8 bytes: leave -a out".into()),
            _ => Ok(()),
        }
    }

    pub fn port(&self) -> u16 {
        self.port.unwrap_or(if self.perftest { perftest::PORT } else { 18516 })
    }

    pub fn is_atomic(&self) -> bool {
        matches!(self.verb, Verb::FetchAdd | Verb::CmpSwp)
    }

    /// The sizes to measure, the largest last.
    pub fn sizes(&self, mtu: Mtu) -> Result<Vec<usize>> {
        let ud = self.connection == Connection::Ud;
        let most = mtu.bytes() as usize;
        let last = match self.size {
            Some(size) => size as usize,
            None if self.is_atomic() => 8,
            None if self.lat && !self.all => 2,
            None if ud => most,
            None => 65536,
        };
        if ud && last > most {
            let why = format!("a UD message is one packet: {last} bytes exceed the MTU of {most}");
            return Err(why.into());
        }
        if !self.all {
            return Ok(vec![last]);
        }
        let powers = (1..usize::BITS - 1).map(|power| 1 << power);
        Ok(powers.take_while(|&size| size < last).chain([last]).collect())
    }

    /// The number of sends per completion.
    pub fn cq_mod(&self) -> u32 {
        self.cq_mod.unwrap_or(100).min(self.tx_depth)
    }

    /// Prints a line for the user, to standard error if standard output is JSON.
    pub fn say(&self, line: &str) {
        if self.json { eprintln!("{line}") } else { println!("{line}") }
    }
}

/// The spelling of an option.
pub fn name(value: impl ValueEnum) -> String {
    value.to_possible_value().map_or(String::new(), |value| value.get_name().to_owned())
}

fn mtu(text: &str) -> std::result::Result<Mtu, String> {
    let mtu = text.parse().ok().and_then(Mtu::from_bytes);
    mtu.ok_or_else(|| "a path MTU is 256, 512, 1024, 2048 or 4096".into())
}
