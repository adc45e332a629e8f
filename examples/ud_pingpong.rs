//! `ibv_ud_pingpong` without `unsafe`: datagrams back and forth.
//!
//! ```text
//! ud_pingpong -c             on the server
//! ud_pingpong -c SERVER      on the client
//! ud_pingpong                without an RDMA device: both ends, on the loopback device
//! ```
//!
//! Either end may be the C program. UD does not retransmit. After a lost packet the C program
//! hangs; this one fails.

#![forbid(unsafe_code)]

mod common;

use std::time::Instant;

use common::{PATIENCE, Result, Station, bail, ensure};
use proverbs::{completion::GRH_LEN, endpoint::Endpoint, prelude::*};

fn main() -> Result<()> {
    common::run(end)
}

fn end(station: &Station) -> Result<()> {
    let (context, options) = (&station.context, &station.options);
    let (size, depth) =
        (options.size.unwrap_or(1024), Depth { send: 1, recv: options.rx_depth + 1 });
    ensure!(options.mtu.is_none(), "UD has no path MTU: leave -m out");
    let qkey = Qkey::try_from(0x1111_1111)?; // of both ends
    let (pd, mut channel) = (context.alloc_pd()?, context.create_comp_channel()?);
    // Room for the queue pair's depths, and for one more send for a drain.
    let mut cq = context.cq(depth.send + 1 + depth.recv).channel(&channel).create()?;
    let qp = pd.create_qp::<Ud, DefaultProfile>(&cq, &cq, depth)?;
    let mut qp = qp.modify(UdInit::new(options.ib_port, qkey))?;

    // Each message arrives after a GRH. Receives are posted before the peer learns of this queue
    // pair. One buffer is for the client's first message, and becomes a receive.
    let pool = pd.create_pool(depth.recv as usize, GRH_LEN + size)?;
    let first = pool.take();
    while let Some(buf) = pool.take() {
        qp.post_recv(wr::Recv::new(station.blank(buf)))?;
    }

    let mine = [Endpoint::of_ud(&qp, qkey, station.gid_index)?];
    let most = mine[0].mtu().bytes() as usize;
    ensure!(size <= most, "a UD message is one packet: {size} bytes exceed the port's MTU, {most}");
    let (mut qp, to) = station.meet(&mine, 1, |mut peers| {
        let (peer, path) = peers.remove(0);
        let mut qp = qp.modify(UdRtr::default())?.modify(UdRts::new(mine[0].psn()))?;
        let address_handle = qp.add_address_handle(pd.create_ah(path)?)?;
        Ok((qp, wr::Destination { address_handle, qpn: peer.qpn(), qkey }))
    })?;

    let began = Instant::now();
    let (mut scnt, mut rcnt) = (0, 0);
    let mut answer = first.filter(|_| station.is_client).map(|buf| station.first(size, buf));
    let mut is_sending = false;
    while scnt < options.iters || rcnt < options.iters {
        // Sends the next message when the last send has completed and the reply has arrived.
        if let Some(message) = answer.take_if(|_| !is_sending && scnt < options.iters) {
            is_sending = true;
            qp.post_send(wr::Send::new(message).to(to))?;
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
                Outcome::Datagram(datagram) => {
                    let mut message = datagram.entry.expect("a receive has a buffer");
                    let len = message.len() - GRH_LEN;
                    message.copy_within(GRH_LEN.., 0);
                    message.set_len(len);
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
