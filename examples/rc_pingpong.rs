//! `ibv_rc_pingpong` without a line of `unsafe`: SEND back and forth on a reliable connection.
//!
//! ```text
//! rc_pingpong -g 1 -c             on the server
//! rc_pingpong -g 1 -c SERVER      on the client
//! rc_pingpong                     where there is no RDMA device: both ends, on the loopback device
//! ```
//!
//! Either end may be the C program.

#![forbid(unsafe_code)]

mod common;

use std::process::ExitCode;

use clap::Parser;
use common::{Options, Queues, Record, Result, Station};
use proverbs::*;

/// SEND ping-pong over RC, on the wire as ibv_rc_pingpong.
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
    common::main("rc_pingpong", options, move |station| end(station, mtu))
}

fn end(station: &mut Station, mtu: Mtu) -> Result<()> {
    let size = station.options.size_or(4096);
    let path_mtu = station.path_mtu(mtu)?;
    let depth = Depth { send: 1, recv: station.options.rx_depth };

    let pd = station.context.alloc_pd()?;
    // The queue pair books its depths here, and one send more for a drain.
    let mut polling = station.completion_queue(depth.send + 1 + depth.recv)?;
    let cq = &polling.cq;
    let mut qp = pd.create_qp::<Rc, DefaultProfile>(cq, cq, depth)?.modify(ConnectedInit {
        pkey_index: 0,
        port: station.options.ib_port,
        access: QpAccess::empty(),
    })?;

    // Receives are posted before the peer learns of this queue pair. One buffer is for the send.
    let pool = pd.create_pool(depth.recv as usize + 1, size)?;
    let mut buffers = station.buffers(&pool);
    for buf in buffers.drain(1..) {
        qp.post_recv(Recv::new(buf))?;
    }

    let mine = station.record(qp.qp_num())?;
    let qp =
        station.exchange(&[mine], 1, |peers| connect(station, qp, mine, peers[0], path_mtu))?;
    common::play(station, &mut polling, &mut Connection(qp), buffers, size, FIRST)
}

fn connect(
    station: &Station,
    qp: QueuePair<Rc, Init>,
    mine: Record,
    peer: Record,
    path_mtu: Mtu,
) -> Result<QueuePair<Rc, Rts>> {
    let qp = qp.modify(RcRtr {
        address: station.path_to(&peer)?,
        path_mtu,
        dest_qpn: peer.qpn,
        rq_psn: peer.psn,
        max_dest_rd_atomic: ResponderDepth::try_from(1)?,
        min_rnr_timer: MinRnrTimer::try_from(12)?,
        optional: RtrOptional::default(),
    })?;
    Ok(qp.modify(RcRts {
        timeout: Timeout::exponent(14).ok_or("no such timeout")?,
        retry_cnt: RetryCount::MAX,
        rnr_retry: RnrRetry::Infinite,
        sq_psn: mine.psn,
        max_rd_atomic: ReadDepth::ONE,
        optional: RcRtsOptional::default(),
    })?)
}

struct Connection(QueuePair<Rc, Rts>);

impl Queues for Connection {
    fn stream(&self, qp_num: u32) -> Option<usize> {
        (qp_num == self.0.qp_num()).then_some(0)
    }

    fn post_recv(&mut self, buf: Buf) -> std::result::Result<(), PostError<Buf>> {
        self.0.post_recv(Recv::new(buf))
    }

    fn post_send(
        &mut self,
        _: usize,
        message: Buf,
    ) -> std::result::Result<Option<Buf>, PostError<Buf>> {
        if message.len() <= MaxInline::VALUE as usize {
            self.0.post_send(Send::inline_slice(&message))?;
            return Ok(Some(message));
        }
        self.0.post_send(Send::new(message))?;
        Ok(None)
    }
}

/// Bytes that go inline: the work request carries them itself, and the buffer stays here.
type MaxInline = <DefaultProfile as Profile>::MaxInline;
