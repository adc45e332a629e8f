//! `ibv_uc_pingpong` without `unsafe`: SEND back and forth on an unreliable connection.
//!
//! ```text
//! uc_pingpong -c             on the server
//! uc_pingpong -c SERVER      on the client
//! uc_pingpong                without an RDMA device: both ends, on the loopback device
//! ```
//!
//! Either end may be the C program. UC does not retransmit. After a lost packet the C program
//! hangs; this one fails.

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
    let (size, depth) =
        (options.size.unwrap_or(4096), Depth { send: 1, recv: options.rx_depth + 1 });
    let (pd, mut channel) = (context.alloc_pd()?, context.create_comp_channel()?);
    // Room for the queue pair's depths, and for one more send for a drain.
    let mut cq = context.cq(depth.send + 1 + depth.recv).channel(&channel).create()?;
    let qp = pd.create_qp::<Uc, DefaultProfile>(&cq, &cq, depth)?;
    let mut qp = qp.modify(ConnectedInit::new(options.ib_port, QpAccess::empty()))?;

    // Receives are posted before the peer learns of this queue pair. One buffer is for the client's
    // first message, and becomes a receive.
    let pool = pd.create_pool(depth.recv as usize, size)?;
    let first = pool.take();
    while let Some(buf) = pool.take() {
        qp.post_recv(wr::Recv::new(station.blank(buf)))?;
    }

    let mine = [Endpoint::of_uc(&qp, station.gid_index)?];
    let path_mtu = options.mtu.unwrap_or(Mtu::Bytes1024);
    let mut qp = station.meet(&mine, 1, |mut peers| {
        let (peer, path) = peers.remove(0);
        let rtr = UcRtr::new(path, peer.qpn(), peer.psn());
        Ok(qp.modify(UcRtr { path_mtu, ..rtr })?.modify(UcRts::new(mine[0].psn()))?)
    })?;

    let began = Instant::now();
    let (mut scnt, mut rcnt) = (0, 0);
    let mut answer = first.filter(|_| station.is_client).map(|buf| station.first(size, buf));
    let mut is_sending = false;
    while scnt < options.iters || rcnt < options.iters {
        // Sends the next message when the last send has completed and the reply has arrived.
        if let Some(message) = answer.take_if(|_| !is_sending && scnt < options.iters) {
            is_sending = true;
            qp.post_send(wr::Send::new(message))?;
        }
        let completions = channel.wait_timeout(&mut cq, PATIENCE)?;
        ensure!(!completions.is_empty(), "no completion for {PATIENCE:?}: the peer is gone");
        for completion in completions {
            match completion.outcome() {
                Outcome::Sent(sent) => {
                    (scnt, is_sending) = (scnt + 1, false);
                    let buf = sent.entry.expect("a send has a buffer");
                    qp.post_recv(wr::Recv::new(station.blank(buf)))?;
                }
                Outcome::Received(received) => {
                    let message = received.entry.expect("a receive has a buffer");
                    answer = Some(station.check(size, message)?);
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
