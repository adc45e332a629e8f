//! The objects of the Rust forms. They are typed, and created through the control path of the
//! loopback device.

use std::mem::ManuallyDrop;

use proverbs::bounded::{MinRnrTimer, ResponderDepth, RetryCount, RnrRetry, Timeout};
use proverbs::loopback::Fabric;
use proverbs::memory::{Entry, Raw, ToRead, ToWrite};
use proverbs::prelude::*;
use proverbs::raw::{AsRaw, ibv_ah};
use proverbs::transport::Transport;

use crate::c::ibv_sge;
use crate::stub::Stub;
use crate::twin::{MOST, PAYLOAD, Twin, TwinEnd, TwinRemote};

pub const IMM: u32 = 0x1234_5678;
pub const COMPARE: u64 = 11;
pub const SWAP: u64 = 12;
pub const ADD: u64 = 13;
pub const QPN: u32 = 0x77;
pub const QKEY: u32 = 0x1111_2222;
/// The numbers of work requests in rows with run-time counts.
pub const COUNTS: [u32; 3] = [1, 4, 16];
pub const BYTES: [u8; PAYLOAD] = *b"sixteen bytes!!!";

/// The depth of a queue, unless a row says otherwise.
pub const DEPTH: u32 = 4096;
/// The size of a buffer in bytes.
const SIZE: usize = 64;

profile! { pub Caller { entry: Raw, max_send_sge: 4, max_recv_sge: 4 } }
profile! { pub Chosen { signaling: Selective } }
profile! { pub Counted { counted: true } }
profile! { pub Gather { entry: BufList, max_send_sge: 4 } }
profile! { pub ChosenGather { entry: BufList, max_send_sge: 4, signaling: Selective } }

/// The arguments of the forms, as a program would store them. The queue pair is first, at the
/// address of the struct.
#[repr(C)]
pub struct World<P: Profile, T: Transport = Rc, X = ()> {
    pub qp: QueuePair<T, Rts, P>,
    pub cq: CompletionQueue<P::Entry>,
    pub at: RemoteSpan<ToWrite>,
    pub from: RemoteSpan<ToRead>,
    pub cell: RemoteCell,
    pub imm_data: u32,
    pub operands: wr::CompareSwap,
    pub add: u64,
    /// Run-time counts.
    pub counts: [u32; 3],
    pub payload: [u8; PAYLOAD],
    pub pieces: [wr::Piece<'static>; MOST],
    pub ids: [u64; MOST],
    pub bufs: [ManuallyDrop<Buf>; MOST],
    pub extra: X,
}

/// A device, and the objects that are created before the queue pair.
pub struct Ground {
    pub context: Context,
    pub pd: ProtectionDomain,
    pub pool: Pool,
    region: &'static MemoryRegion<RemoteAll>,
    vector: AddressVector,
}

impl Ground {
    /// On the loopback device, where the stub replaces only the data path.
    pub fn new() -> Self {
        let context = Fabric::new().open_device();
        let gid = context.query_gid(1, 1).expect("a GID");
        Ground::of(context, AddressVector::roce(1, gid, 1))
    }

    /// On the device of the stub, including its control path.
    pub fn of_stub() -> Self {
        let context = Context::open("stub0").expect("the stub libibverbs");
        Ground::of(context, AddressVector::infiniband(1, 1))
    }

    fn of(context: Context, vector: AddressVector) -> Self {
        let pd = context.alloc_pd().expect("a protection domain");
        let pool = pd.create_pool(2 * MOST, SIZE).expect("a pool");
        let region = pd.register(MOST * SIZE).expect("a region");
        Ground { context, pd, pool, region: Box::leak(Box::new(region)), vector }
    }

    pub fn cq<E: Entry>(&self) -> CompletionQueue<E> {
        self.context.create_cq(4 * DEPTH).expect("a completion queue")
    }

    pub fn bufs(&self) -> [ManuallyDrop<Buf>; MOST] {
        std::array::from_fn(|_| ManuallyDrop::new(self.pool.take().expect("a buffer")))
    }

    /// The target of WRITEs.
    pub fn remote(&self) -> RemoteSlice<RemoteAll> {
        self.region.remote()
    }

    pub fn vector(&self) -> AddressVector {
        self.vector
    }

    /// The world of a queue pair, and its C counterpart.
    pub fn world<T: Transport, P: Profile>(
        self,
        stub: &Stub,
        qp: QueuePair<T, Rts, P>,
        cq: CompletionQueue<P::Entry>,
    ) -> (World<P, T>, &'static mut Twin) {
        let depth = qp.depth().send;
        let bufs = self.bufs();
        let piece = |i: usize| wr::Piece::new(self.region, i * SIZE..(i + 1) * SIZE);
        let remote = self.region.remote();
        let world = World {
            at: remote.write(),
            from: remote.slice(0, SIZE as u64).expect("a slice").read(),
            cell: remote.atomic(0).expect("a cell"),
            imm_data: IMM,
            operands: wr::CompareSwap { compare: COMPARE, swap: SWAP },
            add: ADD,
            counts: COUNTS,
            payload: BYTES,
            pieces: std::array::from_fn(|i| piece(i).expect("a piece")),
            ids: std::array::from_fn(|i| i as u64 + 100),
            bufs,
            qp,
            cq,
            extra: (),
        };
        let twin = Twin::new(self.pieces(), self.addresses(&world.bufs), depth);
        twin.qp = world.qp.as_raw().cast();
        twin.cq = world.cq.as_raw().cast();
        twin.ends[0] = TwinEnd::of(&world.qp);
        let (addr, rkey) = (remote.addr(), remote.rkey());
        let remote = |len| TwinRemote { addr, rkey, len: len as u32 };
        (twin.to, twin.from, twin.cell) = (remote(MOST * SIZE), remote(SIZE), remote(8));
        // SAFETY: the queue pair is in the world, which lives as long as the process.
        unsafe { stub.install(world.qp.as_raw()) };
        // Keeps the device, the protection domain and the pool.
        std::mem::forget(self);
        (world, twin)
    }

    fn pieces(&self) -> [ibv_sge; MOST] {
        // SAFETY: the region is live, and its key does not change.
        let lkey = unsafe { (*self.region.as_raw()).lkey };
        let addr = self.region.remote().addr();
        std::array::from_fn(|i| ibv_sge {
            addr: addr + (i * SIZE) as u64,
            length: SIZE as u32,
            lkey,
        })
    }

    /// Address, length and key of buffers of the pool.
    pub fn addresses(&self, bufs: &[ManuallyDrop<Buf>; MOST]) -> [ibv_sge; MOST] {
        // SAFETY: the pool's region is live, and its key does not change.
        let lkey = unsafe { (*self.pool.as_raw()).lkey };
        bufs.each_ref().map(|buf| ibv_sge {
            addr: buf.as_ptr().expose_provenance() as u64,
            length: buf.len() as u32,
            lkey,
        })
    }
}

/// A connected queue pair whose peer is itself: the stub has no wire.
pub fn connected<P: Profile<Receive = OwnRq, Threads = AnyThread, Initiator = Reads>>(
    ground: &Ground,
    cq: &CompletionQueue<P::Entry>,
    depth: u32,
) -> QueuePair<Rc, Rts, P> {
    let depth = Depth { send: depth, recv: depth };
    bring_up(ground, ground.pd.create_qp::<Rc, P>(cq, cq, depth).expect("a queue pair"))
}

pub fn bring_up<P: Profile<Initiator = Reads>>(
    ground: &Ground,
    qp: QueuePair<Rc, Reset, P>,
) -> QueuePair<Rc, Rts, P> {
    let address = ground.vector();
    let dest_qpn = Qpn::new(qp.qp_num()).expect("a queue pair number");
    let access = QpAccess::all();
    let qp = qp.modify(ConnectedInit { pkey_index: 0, port: 1, access }).expect("INIT");
    let rtr = RcRtr {
        address,
        path_mtu: Mtu::Bytes1024,
        dest_qpn,
        rq_psn: Psn::new(7).expect("24 bits"),
        max_dest_rd_atomic: ResponderDepth::new(1).expect("a depth"),
        min_rnr_timer: MinRnrTimer::new(12).expect("5 bits"),
        optional: Default::default(),
    };
    let qp = qp.modify(rtr).expect("RTR");
    let rts = RcRts {
        timeout: Timeout::exponent(14).expect("5 bits"),
        retry_cnt: RetryCount::new(6).expect("3 bits"),
        rnr_retry: RnrRetry::Infinite,
        sq_psn: Psn::new(7).expect("24 bits"),
        max_rd_atomic: ReadDepth::ONE,
        optional: Default::default(),
    };
    qp.modify(rts).expect("RTS")
}

/// A datagram queue pair, with a destination.
pub fn datagram<P: Profile<Receive = OwnRq, Threads = AnyThread>>(
    ground: &Ground,
    cq: &CompletionQueue<P::Entry>,
) -> (QueuePair<Ud, Rts, P>, wr::Destination, *mut ibv_ah) {
    let depth = Depth { send: DEPTH, recv: DEPTH };
    let qp = ground.pd.create_qp::<Ud, P>(cq, cq, depth).expect("a queue pair");
    let qkey = Qkey::new(QKEY).expect("a Q_Key");
    let init = UdInit { pkey_index: 0, port: 1, qkey: qkey.into() };
    let qp = qp.modify(init).expect("INIT");
    let qp = qp.modify(UdRtr::default()).expect("RTR");
    let rts = UdRts { sq_psn: Psn::new(7).expect("24 bits"), qkey: None };
    let mut qp = qp.modify(rts).expect("RTS");
    let ah = ground.pd.create_ah(ground.vector()).expect("an address handle");
    let handle = ah.as_raw();
    let address_handle = qp.add_address_handle(ah).expect("a name for it");
    let qpn = Qpn::new(QPN).expect("24 bits");
    (qp, wr::Destination { address_handle, qpn, qkey }, handle)
}
