//! `ibv_srq_pingpong` without `unsafe`: many reliable connections, one shared receive queue.
//!
//! ```text
//! srq_pingpong -c -q 16             on the server
//! srq_pingpong -c -q 16 SERVER      on the client
//! srq_pingpong                without an RDMA device: both ends, on the loopback device
//! ```
//!
//! Either end may be the C program.

#![forbid(unsafe_code)]

mod common;

use std::time::Instant;

use common::{PATIENCE, Result, Station, bail, ensure};
use proverbs::{bounded::Mtu, endpoint::Endpoint, prelude::*};

fn main() -> Result<()> {
    common::run(end)
}

fn end(station: &Station) -> Result<()> {
    let (context, options) = (&station.context, &station.options);
    let (size, num_qp) = (options.size.unwrap_or(4096), options.num_qp.unwrap_or(16));
    let (count, rx_depth) = (num_qp as u32, options.rx_depth);
    ensure!((1..=MAX_QP).contains(&num_qp), "-q is from 1 to {MAX_QP}");
    ensure!(rx_depth >= count, "-r {rx_depth} is less than a receive for each of {count} QPs");
    let (pd, mut channel) = (context.alloc_pd()?, context.create_comp_channel()?);
    // Room for every buffer of the shared receive queue's pool, and for one send and the send of a
    // drain of each queue pair.
    let mut cq = context.cq(rx_depth + count + 2 * count).channel(&channel).create()?;
    let pool = pd.create_pool(rx_depth as usize + num_qp, size)?;
    let mut srq: SharedReceiveQueue<Rc> = pd.create_srq(&pool)?;
    let (mut init, mut mine, mut first) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..num_qp {
        let qp = pd.create_qp::<Rc, Sharing>(&cq, &cq, Depth::on_srq(1, &srq))?;
        let qp = qp.modify(ConnectedInit::new(options.ib_port, QpAccess::empty()))?;
        mine.push(Endpoint::of_rc(&qp, station.gid_index)?);
        init.push(qp);
        first.push(pool.take());
    }
    while let Some(buf) = pool.take() {
        srq.post_srq_recv(wr::Recv::new(station.blank(buf)))?;
    }

    let path_mtu = options.mtu.unwrap_or(Mtu::Bytes1024);
    let mut qps = station.meet(&mine, MAX_QP, |peers| {
        let each = init.into_iter().zip(&mine).zip(peers);
        let connected = each.map(|((qp, mine), (peer, path))| {
            let rtr = RcRtr::new(path, peer.qpn(), peer.psn());
            let qp = qp.modify(RcRtr { path_mtu, ..rtr })?;
            Ok(qp.modify(RcRts::new(mine.psn(), ReadDepth::ONE))?)
        });
        connected.collect::<Result<Vec<_>>>()
    })?;

    let began = Instant::now();
    let (mut scnt, mut rcnt) = (0, 0);
    let first = first.into_iter().map(|buf| buf.filter(|_| station.is_client));
    let mut answers: Vec<_> = first.map(|buf| Some(station.first(size, buf?))).collect();
    let mut is_sending = vec![false; num_qp];
    while scnt < options.iters || rcnt < options.iters {
        // A queue pair sends when its last send has completed and the reply has arrived.
        for (at, qp) in qps.iter_mut().enumerate() {
            let is_turn = !is_sending[at] && scnt < options.iters;
            let Some(message) = answers[at].take_if(|_| is_turn) else { continue };
            is_sending[at] = true;
            qp.post_send(wr::Send::new(message))?;
        }
        let of = |qp_num| qps.iter().position(|qp| qp.qp_num() == qp_num).expect("ours");
        let completions = channel.wait_timeout(&mut cq, PATIENCE)?;
        ensure!(!completions.is_empty(), "no completion for {PATIENCE:?}: the peer is gone");
        for completion in completions {
            match completion.outcome() {
                Outcome::Sent(sent) => {
                    is_sending[of(sent.qp_num)] = false;
                    scnt += 1;
                    let buf = sent.entry.expect("a send has a buffer");
                    srq.post_srq_recv(wr::Recv::new(station.blank(buf)))?;
                }
                Outcome::Received(received) => {
                    let message = received.entry.expect("a receive has a buffer");
                    answers[of(received.qp_num)] = Some(station.check(size, message)?);
                    rcnt += 1;
                }
                Outcome::Failed(failed) => bail!("after {rcnt} exchanges: {}", failed.error),
                _ => {}
            }
        }
    }
    station.report(size, began);
    Ok(())
}

profile! {
    /// One buffer per work request, receives from a shared queue.
    Sharing { receive: SharedRq }
}

/// The number of records in each direction, whatever -q is.
const MAX_QP: usize = 256;
