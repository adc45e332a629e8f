//! Windows of a real device, made by raw calls: LOCAL_INV invalidates their keys (R1.6).

use std::env;
use std::mem::zeroed;
use std::ptr;
use std::time::Instant;

use proverbs::bounded::Timeout;
use proverbs::memory::Entry;
use proverbs::qp::{OwnRq, Reads};
use proverbs::raw::AsRaw;
use rdma_sys::*;

use super::*;
use crate::support::long;

const BYTES: usize = 64;

/// Two queue pairs connected to each other, and their completion queue.
struct Ends<P: Profile> {
    a: QueuePair<Rc, Rts, P>,
    b: QueuePair<Rc, Rts, P>,
    cq: CompletionQueue<P::Entry>,
}

fn ends<P>(context: &Context, pd: &ProtectionDomain) -> Ends<P>
where
    P: Profile<Initiator = Reads, Receive = OwnRq, Threads = AnyThread>,
{
    let index = env::var("PROVERBS_GID_INDEX").map_or(1, |index| index.parse().unwrap());
    let address = AddressVector::roce(1, context.query_gid(1, index).unwrap(), index);
    let cq = context.create_cq(32).unwrap();
    let make = || pd.create_qp::<Rc, P>(&cq, &cq, Depth { send: 4, recv: 1 }).unwrap();
    let up = |qp: QueuePair<Rc, Reset, P>, peer: u32| {
        let psn = Psn::try_from(1).unwrap();
        let init = ConnectedInit { pkey_index: 0, port: 1, access: QpAccess::all() };
        let rtr = RcRtr::new(address, Qpn::try_from(peer).unwrap(), psn);
        // Nothing is lost within a device.
        let rts = RcRts { timeout: Timeout::Infinite, ..RcRts::new(psn, ReadDepth::ONE) };
        qp.modify(init).unwrap().modify(rtr).unwrap().modify(rts).unwrap()
    };
    let (a, b) = (make(), make());
    let (a_num, b_num) = (a.qp_num(), b.qp_num());
    Ends { a: up(a, b_num), b: up(b, a_num), cq }
}

/// The result of the next completion.
fn status<E: Entry>(cq: &mut CompletionQueue<E>) -> Result<(), WcStatus> {
    let began = Instant::now();
    loop {
        if let Some(completion) = cq.poll_one().unwrap() {
            return completion.status().map_err(|error| error.status);
        }
        assert!(began.elapsed() < long(), "nothing completed");
        std::thread::yield_now();
    }
}

/// A window over a whole region, and its two queue pairs.
struct Window {
    mw: *mut ibv_mw,
    mr: *mut ibv_mr,
    rkey: u32,
    ends: Ends<Unbooked>,
    source: MemoryRegion<LocalWrite>,
    memory: Box<[u8; BYTES]>,
}

impl Window {
    fn open(context: &Context, pd: &ProtectionDomain) -> Window {
        let mut ends = ends::<Unbooked>(context, pd);
        let mut memory = Box::new([0; BYTES]);
        let access = ibv_access_flags::IBV_ACCESS_LOCAL_WRITE
            | ibv_access_flags::IBV_ACCESS_REMOTE_WRITE
            | ibv_access_flags::IBV_ACCESS_MW_BIND;
        // SAFETY: the domain is live, and the memory is freed after the region is gone (`close`).
        let mr =
            unsafe { ibv_reg_mr(pd.as_raw(), memory.as_mut_ptr().cast(), BYTES, access.0 as i32) };
        assert!(!mr.is_null());
        // SAFETY: the domain is live.
        let mw = unsafe { ibv_alloc_mw(pd.as_raw(), ibv_mw_type::IBV_MW_TYPE_2) };
        let mw = mw.filter(|mw| !mw.is_null()).expect("the device supports windows");
        // SAFETY: all zeroes is a value; the region and the window are live.
        let (mut wr, rkey) = unsafe { (zeroed::<ibv_send_wr>(), ibv_inc_rkey((*mw).rkey)) };
        wr.opcode = ibv_wr_opcode::IBV_WR_BIND_MW;
        wr.send_flags = ibv_send_flags::IBV_SEND_SIGNALED.0;
        let bind_info = ibv_mw_bind_info {
            mr,
            addr: memory.as_ptr() as u64,
            length: BYTES as u64,
            mw_access_flags: ibv_access_flags::IBV_ACCESS_REMOTE_WRITE.0,
        };
        wr.bind_mw_tso_union.bind_mw = bind_mw_t { mw, rkey, bind_info };
        let mut bad = ptr::null_mut();
        // SAFETY: the queue pair is live and its entry `Raw`; so are the window and the region.
        assert_eq!(unsafe { ibv_post_send(ends.a.as_raw(), &mut wr, &mut bad) }, 0);
        assert_eq!(status(&mut ends.cq), Ok(()), "the window is bound");
        let source = pd.register::<LocalWrite>(BYTES).unwrap();
        Window { mw, mr, rkey, ends, source, memory }
    }

    /// The result of a WRITE of these bytes through the window.
    fn write(&mut self, bytes: &[u8; 8]) -> Result<(), WcStatus> {
        self.source.write_at(0, bytes).unwrap();
        let at = self.memory.as_ptr() as u64;
        let to = RemoteSlice::<RemoteWrite>::from_parts(at, BYTES as u64, self.rkey);
        let from = wr::Sge::new(1, [wr::Piece::new(&self.source, 0..8).unwrap()]);
        let write = wr::RdmaWrite::new(from, to.write()).signaled();
        // SAFETY: no code writes to the source until the completion, which the next line waits for.
        unsafe { self.ends.b.post_send_unchecked(write) }.unwrap();
        status(&mut self.ends.cq)
    }

    /// The memory's content, once there are no more writes to it.
    fn close(self) -> [u8; BYTES] {
        drop(self.ends);
        // SAFETY: both are live and have no users: the queue pairs are gone.
        assert_eq!(unsafe { (ibv_dealloc_mw(self.mw), ibv_dereg_mr(self.mr)) }, (0, 0));
        *self.memory
    }
}

/// LOCAL_INV invalidates the key of a window, and no key of a region. Soft-RoCE does not check the
/// protection domain.
///
/// Invalidating a key twice is not tried here: with Linux 6.1 that is a NULL pointer dereference in
/// Soft-RoCE's `rxe_invalidate_mw`, which crashes the kernel.
/// Proves R1.6.
#[test]
#[ignore = "needs an RDMA device with memory windows: cargo xtask test guest"]
fn a_device_window_is_invalidated() {
    let context =
        Context::open(&env::var("PROVERBS_DEVICE").expect("PROVERBS_DEVICE must name the device"))
            .unwrap();
    let (pd, stranger) = (context.alloc_pd().unwrap(), context.alloc_pd().unwrap());
    let end_key = |pd: &ProtectionDomain, rkey| {
        let Ends { mut a, b: _b, mut cq } = ends::<DefaultProfile>(&context, pd);
        // SAFETY: nothing relies on the key any more.
        a.post_send(unsafe { ext::windows::LocalInv::of_rkey(rkey) }).unwrap();
        (status(&mut cq), a.query().unwrap().state.unwrap())
    };

    let mut window = Window::open(&context, &pd);
    assert_eq!(window.write(b"windowed"), Ok(()));
    // SAFETY: the region is live.
    let of_region = unsafe { (*window.mr).rkey };
    assert_eq!(end_key(&pd, of_region), (Err(WcStatus::LocQpOp), QpState::Err));
    assert_eq!(window.write(b"opened! "), Ok(()));
    assert_eq!(end_key(&pd, window.rkey), (Ok(()), QpState::Rts));
    assert_eq!(window.write(b"too late"), Err(WcStatus::RemAccess));
    assert_eq!(window.close()[..8], *b"opened! ");

    let mut window = Window::open(&context, &pd);
    assert_eq!(end_key(&stranger, window.rkey), (Ok(()), QpState::Rts));
    assert_eq!(window.write(b"too late"), Err(WcStatus::RemAccess));
    assert_eq!(window.close(), [0; BYTES]);
}
