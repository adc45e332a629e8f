//! `ibv_uc_pingpong` without a line of `unsafe`: SEND back and forth on an unreliable connection.
//!
//! ```text
//! uc_pingpong -g 1 -c             on the server
//! uc_pingpong -g 1 -c SERVER      on the client
//! uc_pingpong                     where there is no RDMA device: both ends, on the loopback device
//! ```
//!
//! Either end may be the C program. UC does not retransmit: where C hangs after a lost packet, this
//! gives up.

#![forbid(unsafe_code)]

mod common;

use std::process::ExitCode;

use clap::Parser;
use common::{Options, Queues, Record, Result, Station};
use proverbs::prelude::*;
use proverbs::qp::{Limit, RtrOptional};

/// SEND ping-pong over UC, on the wire as ibv_uc_pingpong.
#[derive(Parser)]
struct Cli {
    #[command(flatten)]
    options: Options,
    /// Path MTU: 256, 512, 1024, 2048 or 4096
    #[arg(short, long, default_value = "1024", value_parser = common::options::mtu)]
    mtu: Mtu,
}

/// What the first message of the C namesake is made of.
const FIRST: u8 = 0x7b;

fn main() -> ExitCode {
    let Cli { options, mtu } = Cli::parse();
    common::main("uc_pingpong", options, move |station| end(station, mtu))
}

fn end(station: &mut Station, mtu: Mtu) -> Result<()> {
    let size = station.options.size_or(4096);
    let path_mtu = station.path_mtu(mtu)?;
    let depth = Depth { send: 1, recv: station.options.rx_depth };

    let pd = station.context.alloc_pd()?;
    // The queue pair books its depths here, and one send more for a drain.
    let mut polling = station.completion_queue(depth.send + 1 + depth.recv)?;
    let cq = &polling.cq;
    let mut qp = pd.create_qp::<Uc, DefaultProfile>(cq, cq, depth)?.modify(ConnectedInit {
        pkey_index: 0,
        port: station.options.ib_port,
        access: QpAccess::empty(),
    })?;

    // Receives are posted before the peer learns of this queue pair. One buffer is for the send.
    let pool = pd.create_pool(depth.recv as usize + 1, size)?;
    let mut buffers = station.buffers(&pool);
    for buf in buffers.drain(1..) {
        qp.post_recv(wr::Recv::new(buf))?;
    }

    let mine = station.record(qp.qp_num())?;
    let qp =
        station.exchange(&[mine], 1, |peers| connect(station, qp, mine, peers[0], path_mtu))?;
    common::play(station, &mut polling, &mut Connection(qp), buffers, size, FIRST)
}

fn connect(
    station: &Station,
    qp: QueuePair<Uc, Init>,
    mine: Record,
    peer: Record,
    path_mtu: Mtu,
) -> Result<QueuePair<Uc, Rts>> {
    let qp = qp.modify(UcRtr {
        address: station.path_to(&peer)?,
        path_mtu,
        dest_qpn: peer.qpn,
        rq_psn: peer.psn,
        optional: RtrOptional::default(),
    })?;
    Ok(qp.modify(UcRts::new(mine.psn))?)
}

struct Connection(QueuePair<Uc, Rts>);

impl Queues for Connection {
    fn stream(&self, qp_num: u32) -> Option<usize> {
        (qp_num == self.0.qp_num()).then_some(0)
    }

    fn post_recv(&mut self, buf: Buf) -> std::result::Result<(), PostError<Buf>> {
        self.0.post_recv(wr::Recv::new(buf))
    }

    fn post_send(
        &mut self,
        _: usize,
        message: Buf,
    ) -> std::result::Result<Option<Buf>, PostError<Buf>> {
        if message.len() <= MaxInline::VALUE as usize {
            self.0.post_send(wr::Send::inline_slice(&message))?;
            return Ok(Some(message));
        }
        self.0.post_send(wr::Send::new(message))?;
        Ok(None)
    }
}

/// Bytes that go inline: the work request carries them itself, and the buffer stays here.
type MaxInline = <DefaultProfile as Profile>::MaxInline;
