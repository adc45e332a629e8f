//! A server and a client in one process, connected.

use proverbs::device::LinkLayer;
use proverbs::memory::{Memory, Writable};
use proverbs::prelude::*;

use crate::Result;
use crate::client::Client;
use crate::server::Server;
use crate::table::{BUCKET, MAX_REQUEST};

/// The number of requests and replies in flight.
const DEPTH: Depth = Depth { send: 4, recv: 4 };

/// A server whose table is in `memory`, and its client. All zeroes is an empty table.
pub fn both_ends<M>(context: &Context, memory: M) -> Result<(Server<M>, Client)>
where
    M: Memory<Protection = Writable>,
{
    let pd = context.alloc_pd()?;
    let create = || -> Result<(QueuePair<Rc, Init>, CompletionQueue)> {
        let cq = context.cq(0).queue_pairs(1, DEPTH).create()?;
        let qp = pd.create_qp::<Rc, DefaultProfile>(&cq, &cq, DEPTH)?;
        // Peers may only read.
        let init = ConnectedInit { pkey_index: 0, port: 1, access: QpAccess::REMOTE_READ };
        let mut qp = qp.modify(init)?;
        let pool = pd.create_pool(DEPTH.recv as usize, MAX_REQUEST.max(64))?;
        while let Some(buf) = pool.take() {
            qp.post_recv(wr::Recv::new(buf))?;
        }
        Ok((qp, cq))
    };
    let ((server, server_cq), (client, client_cq)) = (create()?, create()?);
    let (server_num, client_num) = (server.qp_num(), client.qp_num());
    let server = connect(context, server, client_num)?;
    let client = connect(context, client, server_num)?;

    let table: MemoryRegion<RemoteRead, M> = pd.region().create_in(memory)?;
    let buckets = table.len() / BUCKET;
    // Over a network, the server would send these 24 bytes: `to_bytes`.
    let remote = table.remote();
    let buf = pd.create_pool(1, BUCKET)?.take();
    let client =
        Client { qp: client, cq: client_cq, table: remote, buckets, buf, reads: 0, requests: 0 };
    Ok((Server { qp: server, cq: server_cq, table, buckets }, client))
}

fn connect(context: &Context, qp: QueuePair<Rc, Init>, peer: u32) -> Result<QueuePair<Rc, Rts>> {
    let port = context.query_port(1)?;
    let index = match std::env::var("PROVERBS_GID_INDEX") {
        Ok(index) => index.parse()?,
        Err(_) if port.link_layer == LinkLayer::Ethernet => context.roce_v2_gid(1)?.index(),
        Err(_) => 0, // the GID of an InfiniBand port itself
    };
    let gid = context.query_gid(1, index)?;
    let address = AddressVector { dlid: port.lid, ..AddressVector::roce(1, gid, index) };
    let psn = Psn::try_from(0)?;
    let qp = qp.modify(RcRtr::new(address, Qpn::try_from(peer)?, psn))?;
    Ok(qp.modify(RcRts::new(psn, ReadDepth::ONE))?)
}
