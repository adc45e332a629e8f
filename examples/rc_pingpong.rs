//! `ibv_rc_pingpong` without a line of `unsafe`: SEND back and forth on a reliable connection.
//!
//! ```text
//! rc_pingpong -c             on the server
//! rc_pingpong -c SERVER      on the client
//! rc_pingpong                where there is no RDMA device: both ends, on the loopback device
//! ```
//!
//! Either end may be the C program.

#![forbid(unsafe_code)]

mod common;

use std::time::Instant;

use common::{Result, Station, bail};
use proverbs::{bounded::Mtu, endpoint::Endpoint, prelude::*, qp::Limit};

/// The bytes of the C program's first message.
const FIRST: u8 = 0x7b;

fn main() {
    common::main(end);
}

fn end(station: &Station) -> Result<()> {
    let (context, options) = (&station.context, &station.options);
    let (size, depth) = (options.size.unwrap_or(4096), Depth { send: 1, recv: options.rx_depth });
    let (pd, mut channel) = (context.alloc_pd()?, context.create_comp_channel()?);
    // The queue pair books its depths here, and one send more for a drain.
    let mut cq = context.cq(depth.send + 1 + depth.recv).channel(&channel).create()?;
    let qp = pd.create_qp::<Rc, DefaultProfile>(&cq, &cq, depth)?;
    let mut qp = qp.modify(ConnectedInit::new(options.ib_port, QpAccess::empty()))?;

    // Receives are posted before the peer learns of this queue pair. One buffer is for the send.
    let pool = pd.create_pool(depth.recv as usize + 1, size)?;
    let mut spare = pool.take();
    while let Some(buf) = pool.take() {
        qp.post_recv(wr::Recv::new(station.blank(buf)))?;
    }

    let mine = [Endpoint::of_rc(&qp, station.gid_index)?];
    let peer = station.meet(&mine, 1)?.remove(0);
    let path_mtu = options.mtu.unwrap_or(Mtu::Bytes1024);
    let rtr = RcRtr::new(station.path_to(&peer)?, peer.qpn(), peer.psn());
    let qp = qp.modify(RcRtr { path_mtu, ..rtr })?;
    let mut qp = qp.modify(RcRts::new(mine[0].psn(), ReadDepth::ONE))?;
    station.ready(&mine, 1)?;

    let began = Instant::now();
    let (mut scnt, mut rcnt, mut last) = (0, 0, began);
    let mut answer = if station.is_client { spare.take() } else { None };
    let mut is_sending = false;
    while scnt < options.iters || rcnt < options.iters {
        // The next message goes out when the last one is out and the answer is in.
        if let Some(message) = answer.take_if(|_| !is_sending && scnt < options.iters) {
            if let Some(buf) = spare.take() {
                qp.post_recv(wr::Recv::new(station.blank(buf)))?;
            }
            let message = station.fill(rcnt, size, message);
            is_sending = true;
            if size <= MaxInline::VALUE as usize {
                qp.post_send(wr::Send::inline_slice(&message))?;
                spare = Some(message);
            } else {
                qp.post_send(wr::Send::new(message))?;
            }
        }
        for completion in station.poll(&mut cq, &mut channel, &mut last)? {
            match completion.outcome() {
                Outcome::Sent(sent) => {
                    (scnt, is_sending, spare) = (scnt + 1, false, spare.take().or(sent.entry));
                }
                Outcome::Received(received) => {
                    let message = received.entry.expect("a receive has a buffer");
                    answer = Some(station.check(rcnt, size, FIRST, message)?);
                    rcnt += 1;
                }
                Outcome::Failed(failed) if scnt < options.iters || rcnt < options.iters => {
                    bail!("after {rcnt} exchanges: {}", failed.error)
                }
                _ => {} // after the last exchange the peer may be gone
            }
        }
    }
    station.report(size, began);
    Ok(())
}

/// Bytes that go inline: the work request carries them itself, and the buffer stays here.
type MaxInline = <DefaultProfile as Profile>::MaxInline;
