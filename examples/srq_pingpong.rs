//! `ibv_srq_pingpong` without a line of `unsafe`: many reliable connections, one shared receive
//! queue.
//!
//! ```text
//! srq_pingpong -g 1 -c -q 16           on the server
//! srq_pingpong -g 1 -c -q 16 SERVER    on the client
//! srq_pingpong                         where there is no RDMA device: both ends, on the loopback device
//! ```
//!
//! Either end may be the C program.

#![forbid(unsafe_code)]

mod common;

use std::process::ExitCode;

use clap::Parser;
use common::{Options, Queues, Record, Result, Station};
use proverbs::bounded::{MinRnrTimer, ResponderDepth, RetryCount, RnrRetry, Timeout};
use proverbs::prelude::*;
use proverbs::qp::{Limit, RcRtsOptional, RtrOptional};

/// SEND ping-pong over RC queue pairs with a shared receive queue, on the wire as ibv_srq_pingpong.
#[derive(Parser)]
struct Cli {
    #[command(flatten)]
    options: Options,
    /// Path MTU: 256, 512, 1024, 2048 or 4096
    #[arg(short, long, default_value = "1024", value_parser = common::options::mtu)]
    mtu: Mtu,
    /// Queue pairs, the same number on both ends
    #[arg(short = 'q', long, default_value_t = 16,
          value_parser = clap::value_parser!(u32).range(1..=MAX_QP as i64))]
    num_qp: u32,
}

/// As many records go each way, whatever -q is.
const MAX_QP: usize = 256;

profile! {
    /// One buffer a work request, receives from a shared queue.
    Sharing { receive: SharedRq }
}

/// What the first message of the C namesake is made of.
const FIRST: u8 = 0;

fn main() -> ExitCode {
    let Cli { options, mtu, num_qp } = Cli::parse();
    common::main("srq_pingpong", options, move |station| end(station, mtu, num_qp))
}

fn end(station: &mut Station, mtu: Mtu, num_qp: u32) -> Result<()> {
    let size = station.options.size_or(4096);
    let path_mtu = station.path_mtu(mtu)?;
    let rx_depth = station.options.rx_depth;
    if rx_depth < num_qp {
        return Err(format!(
            "-r {rx_depth} is less than a receive for each of {num_qp} queue pairs"
        )
        .into());
    }

    let pd = station.context.alloc_pd()?;
    // The shared receive queue books room for every buffer of its pool, and each queue pair for its
    // send and that of a drain.
    let buffers = rx_depth + num_qp;
    let mut polling = station.completion_queue(buffers + 2 * num_qp)?;
    let cq = &polling.cq;
    let pool = pd.create_pool(buffers as usize, size)?;
    let mut srq: SharedReceiveQueue<Rc> = pd.create_srq(&pool)?;
    let init =
        ConnectedInit { pkey_index: 0, port: station.options.ib_port, access: QpAccess::empty() };
    let mut qps = Vec::new();
    for _ in 0..num_qp {
        qps.push(pd.create_qp::<Rc, Sharing>(cq, cq, Depth::on_srq(1, &srq))?.modify(init)?);
    }

    // A buffer for the send of each queue pair; the others are receives.
    let mut buffers = station.buffers(&pool);
    for buf in buffers.drain(num_qp as usize..) {
        srq.post_srq_recv(wr::Recv::new(buf))?;
    }

    let mine: Result<Vec<Record>> = qps.iter().map(|qp| station.record(qp.qp_num())).collect();
    let mine = mine?;
    let qps = station.exchange(&mine, MAX_QP, |peers| {
        let pairs = qps.into_iter().zip(&mine).zip(peers);
        pairs.map(|((qp, mine), peer)| connect(station, qp, mine, peer, path_mtu)).collect()
    })?;
    common::play(station, &mut polling, &mut Sharers { srq, qps }, buffers, size, FIRST)
}

fn connect(
    station: &Station,
    qp: QueuePair<Rc, Init, Sharing>,
    mine: &Record,
    peer: &Record,
    path_mtu: Mtu,
) -> Result<QueuePair<Rc, Rts, Sharing>> {
    let qp = qp.modify(RcRtr {
        address: station.path_to(peer)?,
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

struct Sharers {
    srq: SharedReceiveQueue<Rc>,
    qps: Vec<QueuePair<Rc, Rts, Sharing>>,
}

impl Queues for Sharers {
    fn stream(&self, qp_num: u32) -> Option<usize> {
        self.qps.iter().position(|qp| qp.qp_num() == qp_num)
    }

    fn post_recv(&mut self, buf: Buf) -> std::result::Result<(), PostError<Buf>> {
        self.srq.post_srq_recv(wr::Recv::new(buf))
    }

    fn post_send(
        &mut self,
        stream: usize,
        message: Buf,
    ) -> std::result::Result<Option<Buf>, PostError<Buf>> {
        let qp = &mut self.qps[stream];
        if message.len() <= MaxInline::VALUE as usize {
            qp.post_send(wr::Send::inline_slice(&message))?;
            return Ok(Some(message));
        }
        qp.post_send(wr::Send::new(message))?;
        Ok(None)
    }
}

/// Bytes that go inline: the work request carries them itself, and the buffer stays here.
type MaxInline = <Sharing as Profile>::MaxInline;
