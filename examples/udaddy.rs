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
use std::time::Instant;

use clap::Parser;
use cm_common::{PATIENCE, Result, STEP, listen, report, route};
use proverbs::cm::{CmId, HasDevice, PrivateData, RDMA_UDP_QKEY, Udp};
use proverbs::completion::{GRH_LEN, UdReceived};
use proverbs::device::Gid;
use proverbs::prelude::*;

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

/// A queue pair, and what it works with.
struct End {
    qp: QueuePair<Ud, Rts>,
    cq: CompletionQueue,
    pd: ProtectionDomain,
    sends: Pool,
    port: u8,
    gid_index: u8,
    sent: u32,
    arrived: u32,
    /// The way to whom the last message came from.
    back: Option<(AddressVector, Qpn)>,
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
    let mut end = End::new(&request.id, options)?;
    let _id = request.accept(&end.qp, &PrivateData::none())?;
    println!("receiving data transfers");
    end.wait(0, options.count, options.size)?;
    let (vector, qpn) = end.back.ok_or("the client's messages have no GRH")?;
    println!("sending replies");
    let to = end.destination(vector, qpn, RDMA_UDP_QKEY)?;
    end.send(to, options)?;
    end.wait(options.count, options.count, options.size)?;
    println!("data transfers complete");
    end.close()
}

fn client(server: &str, options: &Options) -> Result<()> {
    println!("udaddy: starting client");
    let id = route::<Udp>(server, options.port)?;
    let mut end = End::new(&id, options)?;
    let found = id.connect(&PrivateData::none(), STEP)?;
    let to = end.destination(found.peer.vector, found.peer.qpn, found.peer.qkey)?;
    println!("initiating data transfers");
    end.send(to, options)?;
    println!("receiving data transfers");
    end.wait(options.count, options.count, options.size)?;
    println!("data transfers complete");
    end.close()
}

impl End {
    fn new<S: HasDevice>(id: &CmId<Udp, S>, options: &Options) -> Result<End> {
        let (context, pd) = (id.context()?, id.pd()?);
        let count = options.count;
        let cq = context.create_cq(2 * count + 2)?;
        let receives = pd.create_pool(count as usize, GRH_LEN + options.size)?;
        let sends = pd.create_pool(count as usize, options.size)?;
        let depth = Depth { send: count, recv: count };
        let mut qp = id.create_qp::<DefaultProfile>(&pd, &cq, &cq, depth)?;
        while let Some(buf) = receives.take() {
            qp.post_recv(wr::Recv::new(buf))?;
        }
        let port = id.port();
        let gid_index = gid_index(&context, port)?;
        Ok(End { qp, cq, pd, sends, port, gid_index, sent: 0, arrived: 0, back: None })
    }

    fn destination(
        &mut self,
        vector: AddressVector,
        qpn: Qpn,
        qkey: Qkey,
    ) -> Result<wr::Destination> {
        let ah = self.pd.create_ah(vector)?;
        Ok(wr::Destination { address_handle: self.qp.add_address_handle(ah)?, qpn, qkey })
    }

    /// Posts all messages; each tells its queue pair in the immediate.
    fn send(&mut self, to: wr::Destination, options: &Options) -> Result<()> {
        let number = self.qp.qp_num();
        for i in 0..options.count {
            let mut buf = self.sends.take().ok_or("no buffer is at home")?;
            buf.copy_from(&vec![i as u8; options.size])?;
            self.qp.post_send(wr::SendWithImm::new(buf, number).to(to))?;
        }
        Ok(())
    }

    /// Polls until so many messages were sent, and so many have arrived.
    fn wait(&mut self, sent: u32, arrived: u32, size: usize) -> Result<()> {
        let began = Instant::now();
        while (self.sent, self.arrived) != (sent, arrived) {
            for completion in self.cq.poll()? {
                match completion.outcome() {
                    Outcome::Sent(_) => self.sent += 1,
                    Outcome::Datagram(datagram) => {
                        self.arrived += 1;
                        check(&datagram, size)?;
                        let vector = datagram.reply_vector(self.port, self.gid_index);
                        self.back = vector.map(|vector| (vector, datagram.src_qp));
                    }
                    Outcome::Failed(failed) => return Err(failed.error.to_string().into()),
                    _ => return Err("a completion of another kind".into()),
                }
            }
            if began.elapsed() > PATIENCE {
                let (s, a, time) = (self.sent, self.arrived, PATIENCE.as_secs());
                let why = format!("{s} of {sent} sent and {a} of {arrived} arrived in {time} s");
                return Err(why.into());
            }
            std::thread::yield_now();
        }
        Ok(())
    }

    fn close(mut self) -> Result<()> {
        let mut qp = self.qp.to_error()?;
        qp.drain(&mut self.cq, |_| {})?;
        qp.destroy()?;
        Ok(())
    }
}

/// The peer names itself twice: in the datagram and in the immediate.
fn check(datagram: &UdReceived<Buf>, size: usize) -> Result<()> {
    let (bytes, imm, qpn) = (datagram.payload().len(), datagram.imm_data, datagram.src_qp.get());
    if bytes == size && imm == Some(qpn) {
        return Ok(());
    }
    Err(format!("{bytes} bytes of queue pair {qpn}, which calls itself {imm:?}").into())
}

/// The port's RoCE v2 GID of an IPv4 address: the one that rdma_cm sends from, and so that answers
/// must leave from.
fn gid_index(context: &Context, port: u8) -> Result<u8> {
    let is_ipv4 = |gid: Gid| gid.0[..10] == [0; 10] && gid.0[10..12] == [0xff; 2];
    let found = (0..=255).rev().find(|&index| context.query_gid(port, index).is_ok_and(is_ipv4));
    // On InfiniBand the first is the port's own.
    Ok(found.unwrap_or(0))
}
