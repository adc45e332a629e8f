//! A device of the stub, and queue pairs on it.

use field::{DEVICE, REMOTE_ADDR, REMOTE_KEY};
use proverbs::memory::ToWrite;
use proverbs::prelude::*;

profile! { pub Chosen { signaling: Selective } }

/// Bytes of each buffer, as in index.c.
pub const LEN: usize = 16;

/// A device, and what is made on it before the queue pairs.
pub struct Ground {
    pub context: Context,
    pub pd: ProtectionDomain,
}

impl Ground {
    pub fn new() -> Self {
        let context = Context::open(DEVICE).expect("a context");
        let pd = context.alloc_pd().expect("a domain");
        Ground { context, pd }
    }

    /// A completion queue that `n` queue pairs of this depth can book, and one more of each queue
    /// for a drain.
    pub fn cq(&self, n: u32, depth: Depth) -> CompletionQueue {
        let entries = n * (depth.send + depth.recv + 2);
        self.context.create_cq(entries).expect("a completion queue")
    }

    /// A connected queue pair whose peer is itself.
    pub fn connect<
        P: Profile<Receive = OwnRq, Threads = AnyThread, Initiator = Reads, Entry = Buf>,
    >(
        &self,
        cq: &CompletionQueue,
        depth: Depth,
    ) -> QueuePair<Rc, Rts, P> {
        let qp = self.pd.create_qp::<Rc, P>(cq, cq, depth).expect("a queue pair");
        let number = Qpn::new(qp.qp_num()).expect("24 bits");
        let psn = Psn::new(7).expect("24 bits");
        let init = ConnectedInit { pkey_index: 0, port: 1, access: QpAccess::all() };
        let qp = qp.modify(init).expect("INIT");
        let rtr = RcRtr::new(AddressVector::infiniband(1, 1), number, psn);
        let qp = qp.modify(rtr).expect("RTR");
        qp.modify(RcRts::new(psn, ReadDepth::ONE)).expect("RTS")
    }
}

pub fn remote() -> RemoteSpan<ToWrite> {
    RemoteSlice::<RemoteWrite>::from_parts(REMOTE_ADDR, LEN as u64, REMOTE_KEY).write()
}
