//! One host's device and its objects.

use std::collections::BTreeMap;
use std::fs;
use std::time::Instant;

use proverbs::endpoint::{Endpoint, RcConnector, exchange};
use proverbs::prelude::*;

use crate::Result;
use crate::patience::long;
use crate::talk::Talk;

pub const BUFFERS: usize = 64;
pub const LONGEST: usize = 6000;
pub const QKEY: u32 = 0x1111_2222;

pub struct Station {
    pub context: Context,
    pub gid_index: u8,
    pub pd: ProtectionDomain,
    pub cq: CompletionQueue,
    pub pool: Pool,
}

/// The depths of a queue pair.
pub const DEPTH: Depth = Depth { send: 16, recv: 40 };

const INIT: ConnectedInit = ConnectedInit { pkey_index: 0, port: 1, access: QpAccess::all() };

impl Station {
    pub fn open(device: &str, gid_index: u8) -> Result<Station> {
        let context = Context::open(device)?;
        let pd = context.alloc_pd()?;
        let cq = context.create_cq(2048)?;
        let pool = pd.create_pool(BUFFERS, LONGEST)?;
        Ok(Station { context, gid_index, pd, cq, pool })
    }

    /// An RC queue pair, connected to the peer's; posts `recvs` receives before. Returns the peer's
    /// exported slice.
    pub fn connect_rc(
        &self,
        talk: &mut Talk,
        recvs: usize,
        export: Option<RemoteSlice<RemoteAll>>,
    ) -> Result<(QueuePair<Rc, Rts>, Endpoint)> {
        let qp = self.pd.create_qp::<Rc, DefaultProfile>(&self.cq, &self.cq, DEPTH)?;
        let mut connector = RcConnector::new(qp.modify(INIT)?, Some(self.gid_index))?;
        for _ in 0..recvs {
            connector.qp().post_recv(wr::Recv::new(self.buf()?))?;
        }
        if let Some(region) = export {
            connector.export(region).map_err(|error| error.to_string())?;
        }
        connector
            .connect(&mut talk.0, long())
            .map_err(|unconnected| unconnected.error.to_string().into())
    }

    /// A UC queue pair, connected to the peer's, with all of `recvs` posted.
    pub fn connect_uc(
        &self,
        talk: &mut Talk,
        recvs: Option<&Pool>,
        depth: Depth,
    ) -> Result<QueuePair<Uc, Rts>> {
        let qp = self.pd.create_qp::<Uc, DefaultProfile>(&self.cq, &self.cq, depth)?;
        let mut qp = qp.modify(INIT)?;
        while let Some(buf) = recvs.and_then(Pool::take) {
            qp.post_recv(wr::Recv::new(buf))?;
        }
        let mine = Endpoint::of_uc(&qp, Some(self.gid_index))?;
        let peer = exchange(&mut talk.0, &mine, long())?;
        let address = peer.address(&self.context, 1, Some(self.gid_index))?;
        let path_mtu = mine.mtu().min(peer.mtu());
        let qp = qp.modify(UcRtr { path_mtu, ..UcRtr::new(address, peer.qpn(), peer.psn()) })?;
        let qp = qp.modify(UcRts::new(mine.psn()))?;
        // No side sends before both can receive.
        talk.say(0)?;
        talk.hear()?;
        Ok(qp)
    }

    /// A UD queue pair, and the peer's address.
    pub fn connect_ud(
        &self,
        talk: &mut Talk,
        recvs: Option<&Pool>,
        depth: Depth,
    ) -> Result<(QueuePair<Ud, Rts>, wr::Destination)> {
        let qkey = Qkey::try_from(QKEY)?;
        let qp = self.pd.create_qp::<Ud, DefaultProfile>(&self.cq, &self.cq, depth)?;
        let mut qp = qp.modify(UdInit { pkey_index: 0, port: 1, qkey: qkey.into() })?;
        while let Some(buf) = recvs.and_then(Pool::take) {
            qp.post_recv(wr::Recv::new(buf))?;
        }
        let mine = Endpoint::of_ud(&qp, qkey, Some(self.gid_index))?;
        let peer = exchange(&mut talk.0, &mine, long())?;
        let address = peer.address(&self.context, 1, Some(self.gid_index))?;
        let qp = qp.modify(UdRtr::default())?;
        let mut qp = qp.modify(UdRts::new(mine.psn()))?;
        let address_handle = qp.add_address_handle(self.pd.create_ah(address)?)?;
        talk.say(0)?;
        talk.hear()?;
        Ok((qp, wr::Destination { address_handle, qpn: peer.qpn(), qkey }))
    }

    pub fn buf(&self) -> Result<Buf> {
        self.pool.take().ok_or_else(|| "no buffer is free".into())
    }

    /// Checks that every buffer is back in the pool.
    pub fn all_home(&self) -> Result<()> {
        match self.pool.available() {
            BUFFERS => Ok(()),
            home => Err(format!("{home} of {BUFFERS} buffers are free").into()),
        }
    }

    /// Polls for the one send that is outstanding, which must succeed.
    pub fn sent(&mut self) -> Result<()> {
        let mut idle = Idle::new();
        loop {
            match self.cq.poll_one()?.map(Completion::outcome) {
                Some(Outcome::Sent(_)) => return Ok(()),
                Some(Outcome::Failed(failed)) => return Err(failed.error.to_string().into()),
                Some(_) => return Err("not a send".into()),
                None => idle.saw(0, "a send")?,
            }
        }
    }

    /// The device's counters: retries, duplicates and others.
    pub fn counters(&self) -> BTreeMap<String, u64> {
        let dir = format!("/sys/class/infiniband/{}/ports/1/hw_counters", self.context.name());
        let files = fs::read_dir(dir).into_iter().flatten().flatten();
        files
            .filter_map(|file| {
                let text = fs::read_to_string(file.path()).ok()?;
                let name = file.file_name().into_string().ok()?;
                Some((name, text.trim().parse().ok()?))
            })
            .collect()
    }
}

/// The time since the last completion.
pub struct Idle(Instant);

impl Idle {
    pub fn new() -> Idle {
        Idle(Instant::now())
    }

    /// After a poll: whether completions came.
    pub fn saw(&mut self, count: usize, what: &str) -> Result<()> {
        if count > 0 {
            self.0 = Instant::now();
        } else if self.0.elapsed() > long() {
            return Err(format!("no completion in {} s: {what}", long().as_secs()).into());
        }
        std::thread::yield_now();
        Ok(())
    }
}
