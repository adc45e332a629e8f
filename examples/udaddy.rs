//! Datagrams to a queue pair that rdma_cm found, and answers to where they came from, as
//! rdma-core's `udaddy`.
//!
//! ```text
//! udaddy [-b ADDRESS]
//! udaddy -s ADDRESS [-C COUNT] [-S SIZE]      # ours, or rdma-core's
//! ```

#![forbid(unsafe_code)]

mod cm_common;

use std::process::ExitCode;

use clap::Parser;
use cm_common::{Datagrams, PATIENCE, Result, STEP, listen, report, route};
use proverbs::cm::{PrivateData, RDMA_UDP_QKEY, Udp};

#[derive(Parser)]
#[command(version, about = "Datagrams by rdma_cm")]
struct Options {
    /// Address of the server; absent, this is the server
    #[arg(short)]
    server: Option<String>,
    /// Address to listen on [default: any]
    #[arg(short)]
    bind: Option<String>,
    #[arg(short, default_value_t = 7174)]
    port: u16,
    /// Messages each way
    #[arg(short = 'C', default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1000))]
    count: u32,
    /// Bytes of a message
    #[arg(short = 'S', default_value_t = 100)]
    size: usize,
}

fn main() -> ExitCode {
    let options = Options::parse();
    let result = match &options.server {
        Some(server) => client(server, &options),
        None => server(&options),
    };
    report("udaddy", result)
}

fn server(options: &Options) -> Result<()> {
    println!("udaddy: starting server");
    let listening = listen::<Udp>(options.bind.as_deref(), options.port)?;
    let request = listening.get_request()?;
    let mut end = Datagrams::new(&request.id, options.count, options.size)?;
    let _id = request.accept(&end.qp, &PrivateData::none())?;
    println!("receiving data transfers");
    end.wait(0, options.count, options.size, *PATIENCE)?;
    let (vector, qpn) = end.back.ok_or("the client's messages have no GRH")?;
    println!("sending replies");
    let to = end.destination(vector, qpn, RDMA_UDP_QKEY)?;
    end.send(to, options.count, options.size)?;
    end.wait(options.count, options.count, options.size, *PATIENCE)?;
    println!("data transfers complete");
    end.close()
}

fn client(server: &str, options: &Options) -> Result<()> {
    println!("udaddy: starting client");
    let id = route::<Udp>(server, options.port)?;
    let mut end = Datagrams::new(&id, options.count, options.size)?;
    let found = id.connect(&PrivateData::none(), *STEP)?;
    let to = end.destination(found.peer.vector, found.peer.qpn, found.peer.qkey)?;
    println!("initiating data transfers");
    end.send(to, options.count, options.size)?;
    println!("receiving data transfers");
    end.wait(options.count, options.count, options.size, *PATIENCE)?;
    println!("data transfers complete");
    end.close()
}
