//! The queue pair of an RC ping-pong: created, filled with receives, connected.

use proverbs::bounded::{MinRnrTimer, ResponderDepth, RetryCount, RnrRetry, Timeout};
use proverbs::prelude::*;
use proverbs::qp::{Limit, RcRtsOptional, RtrOptional};

use super::{Queues, Record, Result, Station};

/// What the first message of the C namesake is made of.
pub const FIRST: u8 = 0x7b;

/// Bytes of a message.
pub fn size(station: &Station) -> usize {
    station.options.size_or(4096)
}

fn depth(station: &Station) -> Depth {
    Depth { send: 1, recv: station.options.rx_depth }
}

/// Room in the completion queue: the queue pair books its depths there, and one send more for a
/// drain.
pub fn completions(station: &Station) -> u32 {
    let depth = depth(station);
    depth.send + 1 + depth.recv
}

/// Connects a queue pair, its receives posted, to the peer's. Gives the buffer for its send too.
pub fn establish(
    station: &Station,
    pd: &ProtectionDomain,
    cq: &CompletionQueue,
    mtu: Mtu,
) -> Result<(Connection, Vec<Buf>)> {
    let path_mtu = station.path_mtu(mtu)?;
    let depth = depth(station);
    let mut qp = pd.create_qp::<Rc, DefaultProfile>(cq, cq, depth)?.modify(ConnectedInit {
        pkey_index: 0,
        port: station.options.ib_port,
        access: QpAccess::empty(),
    })?;

    // Receives are posted before the peer learns of this queue pair. One buffer is for the send.
    let pool = pd.create_pool(depth.recv as usize + 1, size(station))?;
    let mut buffers = station.buffers(&pool);
    for buf in buffers.drain(1..) {
        qp.post_recv(wr::Recv::new(buf))?;
    }

    let mine = station.record(qp.qp_num())?;
    let qp =
        station.exchange(&[mine], 1, |peers| connect(station, qp, mine, peers[0], path_mtu))?;
    Ok((Connection(qp), buffers))
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

/// An RC queue pair that plays.
pub struct Connection(QueuePair<Rc, Rts>);

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
