//! This crate: buffers owned by the device, every work request completing or selectively, and the
//! `unsafe` path.

mod outcome;
mod owned;
mod selective;
mod unchecked;

use field::{DEPTH, DEVICE, LEN, REMOTE_ADDR, REMOTE_KEY};
use proverbs::memory::{Entry, ToWrite};
use proverbs::prelude::*;

/// A device, and what is made on it before the queue pair.
struct Ground {
    context: Context,
    pd: ProtectionDomain,
    pool: Pool,
}

impl Ground {
    fn new() -> Self {
        let context = Context::open(DEVICE).expect("a context");
        let pd = context.alloc_pd().expect("a domain");
        let pool = pd.create_pool(DEPTH as usize, LEN).expect("a pool");
        Ground { context, pd, pool }
    }

    fn cq<E: Entry>(&self) -> CompletionQueue<E> {
        self.context.create_cq(4 * DEPTH).expect("a completion queue")
    }

    /// A connected queue pair whose peer is itself.
    fn connect<P: Profile<Receive = OwnRq, Threads = AnyThread, Initiator = Reads>>(
        &self,
        cq: &CompletionQueue<P::Entry>,
    ) -> QueuePair<Rc, Rts, P> {
        let depth = Depth { send: DEPTH, recv: DEPTH };
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

fn remote() -> RemoteSpan<ToWrite> {
    RemoteSlice::<RemoteWrite>::from_parts(REMOTE_ADDR, LEN as u64, REMOTE_KEY).write()
}

fn main() {
    let ground = Ground::new();
    field::run(owned::Form::new(&ground));
    field::run(outcome::Form(owned::Form::new(&ground)));
    field::run(selective::Form::new(&ground));
    field::run(unchecked::Form::new(&ground));
}
