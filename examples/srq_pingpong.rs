//! `ibv_srq_pingpong` without a line of `unsafe`: many reliable connections, one shared receive
//! queue.
//!
//! ```text
//! srq_pingpong -c -q 16             on the server
//! srq_pingpong -c -q 16 SERVER      on the client
//! srq_pingpong                where there is no RDMA device: both ends, on the loopback device
//! ```
//!
//! Either end may be the C program.

#![forbid(unsafe_code)]

mod common;

use std::time::Instant;

use common::{Result, Station, bail, ensure};
use proverbs::{bounded::Mtu, endpoint::Endpoint, prelude::*, qp::Limit};

/// The bytes of the C program's first message.
const FIRST: u8 = 0;

fn main() {
    common::main(end);
}

fn end(station: &Station) -> Result<()> {
    let (context, options) = (&station.context, &station.options);
    let (size, num_qp) = (options.size.unwrap_or(4096), options.num_qp.unwrap_or(16));
    let (count, rx_depth) = (num_qp as u32, options.rx_depth);
    ensure!((1..=MAX_QP).contains(&num_qp), "-q is from 1 to {MAX_QP}");
    ensure!(rx_depth >= count, "-r {rx_depth} is less than a receive for each of {count} QPs");
    let (pd, mut channel) = (context.alloc_pd()?, context.create_comp_channel()?);
    // The shared receive queue books room for every buffer of its pool, and each queue pair for its
    // send and that of a drain.
    let mut cq = context.cq(rx_depth + count + 2 * count).channel(&channel).create()?;
    let pool = pd.create_pool(rx_depth as usize + num_qp, size)?;
    let mut srq: SharedReceiveQueue<Rc> = pd.create_srq(&pool)?;
    let (mut init, mut mine, mut spare) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..num_qp {
        let qp = pd.create_qp::<Rc, Sharing>(&cq, &cq, Depth::on_srq(1, &srq))?;
        let qp = qp.modify(ConnectedInit::new(options.ib_port, QpAccess::empty()))?;
        mine.push(Endpoint::of_rc(&qp, station.gid_index)?);
        init.push(qp);
        spare.extend(pool.take());
    }
    while let Some(buf) = pool.take() {
        srq.post_srq_recv(wr::Recv::new(station.blank(buf)))?;
    }

    let peers = station.meet(&mine, MAX_QP)?;
    let (mut qps, path_mtu) = (Vec::new(), options.mtu.unwrap_or(Mtu::Bytes1024));
    for ((qp, mine), peer) in init.into_iter().zip(&mine).zip(&peers) {
        let rtr = RcRtr::new(station.path_to(peer)?, peer.qpn(), peer.psn());
        let qp = qp.modify(RcRtr { path_mtu, ..rtr })?;
        qps.push(qp.modify(RcRts::new(mine.psn(), ReadDepth::ONE))?);
    }
    station.ready(&mine, MAX_QP)?;

    let began = Instant::now();
    let (mut scnt, mut rcnt, mut last) = (0, 0, began);
    let mut answers: Vec<_> = qps.iter().map(|_| None).collect();
    if station.is_client {
        answers = spare.drain(..).map(Some).collect();
    }
    let mut is_sending = vec![false; num_qp];
    while scnt < options.iters || rcnt < options.iters {
        // A queue pair sends when its last message is out and the answer is in.
        for (at, qp) in qps.iter_mut().enumerate() {
            let is_turn = !is_sending[at] && scnt < options.iters;
            let Some(message) = answers[at].take_if(|_| is_turn) else { continue };
            if let Some(buf) = spare.pop() {
                srq.post_srq_recv(wr::Recv::new(station.blank(buf)))?;
            }
            // C has one buffer for all queue pairs: only one content can be told.
            let message = station.fill(0, size, message);
            is_sending[at] = true;
            if size <= MaxInline::VALUE as usize {
                qp.post_send(wr::Send::inline_slice(&message))?;
                spare.push(message);
            } else {
                qp.post_send(wr::Send::new(message))?;
            }
        }
        let of = |qp_num| qps.iter().position(|qp| qp.qp_num() == qp_num).expect("ours");
        for completion in station.poll(&mut cq, &mut channel, &mut last)? {
            match completion.outcome() {
                Outcome::Sent(sent) => {
                    is_sending[of(sent.qp_num)] = false;
                    spare.extend(sent.entry);
                    scnt += 1;
                }
                Outcome::Received(received) => {
                    let message = received.entry.expect("a receive has a buffer");
                    answers[of(received.qp_num)] = Some(station.check(0, size, FIRST, message)?);
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

profile! {
    /// One buffer a work request, receives from a shared queue.
    Sharing { receive: SharedRq }
}

/// As many records go each way, whatever -q is.
const MAX_QP: usize = 256;

/// Bytes that go inline: the work request carries them itself, and the buffer stays here.
type MaxInline = <Sharing as Profile>::MaxInline;
