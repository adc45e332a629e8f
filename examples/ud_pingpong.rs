//! `ibv_ud_pingpong` without a line of `unsafe`: datagrams back and forth.
//!
//! ```text
//! ud_pingpong -g 1 -c             on the server
//! ud_pingpong -g 1 -c SERVER      on the client
//! ud_pingpong                     where there is no RDMA device: both ends, on the loopback device
//! ```
//!
//! Either end may be the C program. UD does not retransmit: where C hangs after a lost packet, this
//! gives up.

#![forbid(unsafe_code)]

mod common;

use std::process::ExitCode;

use clap::Parser;
use common::{Options, Queues, Record, Result, Station};
use proverbs::completion::GRH_LEN;
use proverbs::prelude::*;
use proverbs::qp::Limit;

/// SEND ping-pong over UD, on the wire as ibv_ud_pingpong.
#[derive(Parser)]
struct Cli {
    #[command(flatten)]
    options: Options,
}

/// The Q_Key of both ends.
const QKEY: u32 = 0x1111_1111;

/// What the first message of the C namesake is made of.
const FIRST: u8 = 0x7b;

fn main() -> ExitCode {
    common::main("ud_pingpong", Cli::parse().options, end)
}

fn end(station: &mut Station) -> Result<()> {
    let size = station.options.size_or(1024);
    let mtu = station.active_mtu().bytes();
    if size > mtu as usize {
        return Err(format!(
            "a UD message is one packet: {size} bytes exceed the port's MTU of {mtu}"
        )
        .into());
    }
    let depth = Depth { send: 1, recv: station.options.rx_depth };
    let qkey = Qkey::try_from(QKEY)?;

    let pd = station.context.alloc_pd()?;
    // The queue pair books its depths here, and one send more for a drain.
    let mut polling = station.completion_queue(depth.send + 1 + depth.recv)?;
    let cq = &polling.cq;
    let mut qp = pd.create_qp::<Ud, DefaultProfile>(cq, cq, depth)?.modify(UdInit {
        pkey_index: 0,
        port: station.options.ib_port,
        qkey: qkey.into(),
    })?;

    // Each message arrives behind a GRH. One buffer is for the send.
    let pool = pd.create_pool(depth.recv as usize + 1, GRH_LEN + size)?;
    let mut buffers = station.buffers(&pool);
    for buf in buffers.drain(1..) {
        qp.post_recv(wr::Recv::new(buf))?;
    }

    let mine = station.record(qp.qp_num())?;
    let mut queues = station.exchange(&[mine], 1, |peers| {
        let qp = qp.modify(UdRtr::default())?;
        let mut qp = qp.modify(UdRts::new(mine.psn))?;
        let peer: Record = peers[0];
        let address_handle = qp.add_address_handle(pd.create_ah(station.path_to(&peer)?)?)?;
        Ok(Datagrams { qp, peer: wr::Destination { address_handle, qpn: peer.qpn, qkey } })
    })?;
    common::play(station, &mut polling, &mut queues, buffers, size, FIRST)
}

struct Datagrams {
    qp: QueuePair<Ud, Rts>,
    peer: wr::Destination,
}

impl Queues for Datagrams {
    fn stream(&self, qp_num: u32) -> Option<usize> {
        (qp_num == self.qp.qp_num()).then_some(0)
    }

    fn post_recv(&mut self, buf: Buf) -> std::result::Result<(), PostError<Buf>> {
        self.qp.post_recv(wr::Recv::new(buf))
    }

    fn post_send(
        &mut self,
        _: usize,
        message: Buf,
    ) -> std::result::Result<Option<Buf>, PostError<Buf>> {
        if message.len() <= MaxInline::VALUE as usize {
            self.qp.post_send(wr::Send::inline_slice(&message).to(self.peer))?;
            return Ok(Some(message));
        }
        self.qp.post_send(wr::Send::new(message).to(self.peer))?;
        Ok(None)
    }
}

/// Bytes that go inline: the work request carries them itself, and the buffer stays here.
type MaxInline = <DefaultProfile as Profile>::MaxInline;
