//! The options of the C ping-pongs, by the same letters.

use clap::Args;
use proverbs::bounded::{Mtu, ServiceLevel};

#[derive(Args, Clone, Debug)]
pub struct Options {
    /// RDMA device; "loopback" runs both ends in this process [default: the first one, or loopback]
    #[arg(short, long = "ib-dev", value_name = "DEVICE", env = "PROVERBS_DEVICE")]
    pub device: Option<String>,
    /// Index of the local GID; required on RoCE [default on loopback: 1]
    #[arg(short, long = "gid-idx", value_name = "INDEX", env = "PROVERBS_GID_INDEX")]
    pub gid_index: Option<u8>,
    /// Port of the device
    #[arg(short, long, value_name = "PORT", default_value_t = 1,
          value_parser = clap::value_parser!(u8).range(1..))]
    pub ib_port: u8,
    /// TCP port to listen on or to connect to
    #[arg(short, long, default_value_t = 18515)]
    pub port: u16,
    /// Bytes of a message [default: 4096; UD 1024]
    #[arg(short, long, value_parser = clap::value_parser!(u32).range(1..))]
    pub size: Option<u32>,
    /// Receives to post
    #[arg(short, long, value_name = "DEPTH", default_value_t = 500,
          value_parser = clap::value_parser!(u32).range(1..))]
    pub rx_depth: u32,
    /// Exchanges
    #[arg(short = 'n', long, default_value_t = 1000,
          value_parser = clap::value_parser!(u32).range(1..))]
    pub iters: u32,
    /// Service level, 0 to 15
    #[arg(short = 'l', long, default_value = "0", value_parser = service_level)]
    pub sl: ServiceLevel,
    /// Sleep on completion events instead of polling
    #[arg(short, long)]
    pub events: bool,
    /// Check every byte of every message
    #[arg(short, long = "chk")]
    pub check: bool,
    /// Whom to connect to; absent, this is the server
    #[arg(value_name = "SERVER")]
    pub server: Option<String>,
}

impl Options {
    /// The size of a message.
    pub fn size_or(&self, default: usize) -> usize {
        self.size.map_or(default, |size| size as usize)
    }
}

fn service_level(text: &str) -> Result<ServiceLevel, String> {
    let level = text.parse().ok().and_then(ServiceLevel::new);
    level.ok_or_else(|| "a service level is 0 to 15".into())
}

/// Parses a path MTU.
#[allow(dead_code)] // UD has none
pub fn mtu(text: &str) -> Result<Mtu, String> {
    let mtu = text.parse().ok().and_then(Mtu::from_bytes);
    mtu.ok_or_else(|| "a path MTU is 256, 512, 1024, 2048 or 4096".into())
}
