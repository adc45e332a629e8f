//! Datagrams to a queue pair that rdma_cm resolved, and replies to their sender, like rdma-core's
//! `udaddy`.
//!
//! ```text
//! udaddy [-b ADDRESS]
//! udaddy -s ADDRESS [-C COUNT] [-S SIZE]      # ours, or rdma-core's
//! ```

#![forbid(unsafe_code)]

mod cm_common;

use std::process::ExitCode;

use bpaf::Bpaf;
use cm_common::{Datagrams, FEW, PATIENCE, Result, STEP, few, listen, report, route};
use proverbs::cm::{PrivateData, RDMA_UDP_QKEY, Udp};

/// Datagrams through rdma_cm
#[derive(Bpaf)]
#[bpaf(options, version)]
struct Options {
    /// Address of the server; without it, this is the server
    #[bpaf(short('s'), argument("ADDRESS"))]
    server: Option<String>,
    /// Address to listen on [default: any]
    #[bpaf(short('b'), argument("ADDRESS"))]
    bind: Option<String>,
    /// Port to listen on or to connect to
    #[bpaf(short('p'), argument("PORT"), fallback(7174), display_fallback)]
    port: u16,
    /// Messages each way
    #[bpaf(short('C'), argument("COUNT"), fallback(10), display_fallback, guard(few, FEW))]
    count: u32,
    /// Bytes of a message
    #[bpaf(short('S'), argument("SIZE"), fallback(100), display_fallback)]
    size: usize,
}

fn main() -> ExitCode {
    let options = options().run();
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
    let (vector, qpn) = end.back.ok_or("the client's messages do not have a GRH")?;
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
