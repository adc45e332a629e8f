//! A program that is half C, on a real device: contexts, domains and regions made by C, verbs of
//! this crate, and a verb that it does not offer.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use proverbs::prelude::*;
use proverbs::raw::{AsRaw, ibv_context, ibv_mr, ibv_pd};

enum Device {}

#[link(name = "ibverbs")]
unsafe extern "C" {
    fn ibv_get_device_list(count: *mut c_int) -> *mut *mut Device;
    fn ibv_free_device_list(list: *mut *mut Device);
    fn ibv_get_device_name(device: *mut Device) -> *const c_char;
    fn ibv_open_device(device: *mut Device) -> *mut ibv_context;
    fn ibv_close_device(context: *mut ibv_context) -> c_int;
    fn ibv_alloc_pd(context: *mut ibv_context) -> *mut ibv_pd;
    fn ibv_dealloc_pd(pd: *mut ibv_pd) -> c_int;
    fn ibv_reg_mr(pd: *mut ibv_pd, addr: *mut c_void, len: usize, access: c_int) -> *mut ibv_mr;
    fn ibv_dereg_mr(mr: *mut ibv_mr) -> c_int;
    fn ibv_get_pkey_index(context: *mut ibv_context, port: u8, pkey: u16) -> c_int;
}

/// The order in which C's objects are destroyed.
type Ends = Arc<AtomicU32>;

struct TheirContext(NonNull<ibv_context>, Ends);
struct TheirPd(NonNull<ibv_pd>, Ends);
struct TheirMr(NonNull<ibv_mr>, NonNull<[u64; 512]>, Ends);

// SAFETY: verbs may be called from any thread.
unsafe impl Send for TheirContext {}
// SAFETY: it is only dropped.
unsafe impl Sync for TheirContext {}
// SAFETY: verbs may be called from any thread.
unsafe impl Send for TheirPd {}
// SAFETY: it is only dropped.
unsafe impl Sync for TheirPd {}
// SAFETY: verbs may be called from any thread, and the bytes go with the value.
unsafe impl Send for TheirMr {}

impl Drop for TheirContext {
    fn drop(&mut self) {
        // SAFETY: this program opened it, and it has no more users.
        assert_eq!(unsafe { ibv_close_device(self.0.as_ptr()) }, 0);
        assert_eq!(self.1.fetch_add(1, Ordering::Relaxed), 2, "last");
    }
}

impl Drop for TheirPd {
    fn drop(&mut self) {
        // SAFETY: this program allocated it, and it has no more users.
        assert_eq!(unsafe { ibv_dealloc_pd(self.0.as_ptr()) }, 0);
        assert_eq!(self.1.fetch_add(1, Ordering::Relaxed), 1, "after the region");
    }
}

impl Drop for TheirMr {
    fn drop(&mut self) {
        // SAFETY: this program registered it, for a box, and neither has users any more.
        unsafe {
            assert_eq!(ibv_dereg_mr(self.0.as_ptr()), 0);
            drop(Box::from_raw(self.1.as_ptr()));
        }
        assert_eq!(self.2.fetch_add(1, Ordering::Relaxed), 0, "first");
    }
}

fn open(name: &str) -> NonNull<ibv_context> {
    let mut count = 0;
    // SAFETY: the list is read within its count, and freed once, after the device was opened.
    unsafe {
        let list = ibv_get_device_list(&mut count);
        let devices = std::slice::from_raw_parts(list, count as usize);
        let is_it = |device: &&*mut Device| {
            CStr::from_ptr(ibv_get_device_name(**device)).to_str() == Ok(name)
        };
        let context = ibv_open_device(*devices.iter().find(is_it).expect("the device"));
        ibv_free_device_list(list);
        NonNull::new(context).expect("the device opens")
    }
}

#[test]
#[ignore = "requires a device, which PROVERBS_DEVICE names: cargo xtask test guest"]
fn objects_of_c_are_used_by_c_and_rust() {
    const WINDOW_TYPE_1: u32 = 1;
    const LOCAL_AND_REMOTE_WRITE: c_int = 1 | 2;
    let name = std::env::var("PROVERBS_DEVICE").expect("PROVERBS_DEVICE must name a device");
    let index = std::env::var("PROVERBS_GID_INDEX").map_or(0, |index| index.parse().unwrap());
    let ends = Ends::default();
    let theirs = open(&name);
    // SAFETY: the context lives until its keeper closes it, and the domain until its own does.
    let (context, pd) = unsafe {
        let context = Context::from_raw(theirs, TheirContext(theirs, ends.clone()));
        let pd = NonNull::new(ibv_alloc_pd(context.as_raw())).unwrap();
        let keep = TheirPd(pd, ends.clone());
        let pd = ProtectionDomain::from_raw(&context, pd, keep).unwrap();
        (context, pd)
    };
    assert_eq!(context.name(), name);

    // Memory that C registered, and that a peer writes.
    let bytes = NonNull::from(Box::leak(Box::new([0u64; 512])));
    let base = bytes.cast::<u8>();
    // SAFETY: the domain is live. Memory and regions live until the keeper is dropped, and the two
    // overlapping regions are dropped before. The bytes are accessed only by raw pointers, here.
    let (region, given, again) = unsafe {
        let register = || {
            let access = LOCAL_AND_REMOTE_WRITE;
            NonNull::new(ibv_reg_mr(pd.as_raw(), base.as_ptr().cast(), 4096, access)).unwrap()
        };
        let (mr, given) = (register(), register());
        let keeper = TheirMr(mr, bytes, ends.clone());
        let region = pd.region_from_raw::<RemoteWrite, _>(mr, base.as_ptr(), 4096, keeper);
        let given = pd.owned_region_from_raw::<RemoteWrite, _>(given, base.as_ptr(), 4096, ());
        let again = pd.region::<RemoteWrite>().opaque(base.add(8), 64, ());
        (region.unwrap(), given.unwrap(), again.unwrap())
    };

    // Queue pairs of this crate on these objects.
    let mut cq = context.create_cq::<Buf>(32).unwrap();
    let gid = context.query_gid(1, index).unwrap();
    let create = || {
        let depth = Depth { send: 4, recv: 4 };
        let qp = pd.create_qp::<Rc, DefaultProfile>(&cq, &cq, depth).unwrap();
        qp.modify(ConnectedInit { pkey_index: 0, port: 1, access: QpAccess::all() }).unwrap()
    };
    let (a, b) = (create(), create());
    let psn = Psn::new(7).unwrap();
    let connect = |qp: QueuePair<Rc, Init>, peer: u32| {
        let address = AddressVector::roce(1, gid, index);
        let rtr = RcRtr::new(address, Qpn::new(peer).unwrap(), psn);
        qp.modify(rtr).unwrap().modify(RcRts::new(psn, ReadDepth::ONE)).unwrap()
    };
    let (na, nb) = (a.qp_num(), b.qp_num());
    let (mut a, b) = (connect(a, nb), connect(b, na));
    let pool = pd.create_pool(1, 64).unwrap();
    let mut write = |bytes: &[u8], to| {
        let mut buf = pool.take().unwrap();
        buf.copy_from(bytes).unwrap();
        a.post_send(wr::RdmaWrite::new(buf, to)).unwrap();
        let started = std::time::Instant::now();
        let sent = loop {
            if let Some(completion) = cq.poll_one().unwrap() {
                break completion.outcome();
            }
            assert!(started.elapsed().as_secs() < 60, "no completion");
        };
        assert!(matches!(sent, Outcome::Sent(_)), "the WRITE failed");
    };
    write(b"into what C registered", region.remote().write());
    write(b"gave", given.remote().slice(12, 4).unwrap().write());
    write(b"in", again.remote().slice(0, 2).unwrap().write());
    // SAFETY: the bytes live as long as the region, and no WRITE is in progress.
    let got = unsafe { region.as_ptr().cast::<[u8; 22]>().read() };
    assert_eq!(&got, b"into whainC gavestered");

    // The crate does not offer a memory window of type 1 here: it is allocated through the device's
    // table. SAFETY: context and domain are live, every entry of the table is a function, and the
    // window is freed once.
    unsafe {
        const DEFAULT: u16 = 0xffff;
        assert_eq!(ibv_get_pkey_index(context.as_raw(), 1, DEFAULT), 0);
        assert_eq!(ibv_get_pkey_index(context.as_raw(), 1, 0x1234_u16.to_be()), -1);
        let ops = &(*context.as_raw()).ops;
        let window = ops.alloc_mw.unwrap()(pd.as_raw(), WINDOW_TYPE_1);
        assert!(!window.is_null(), "{}", std::io::Error::last_os_error());
        assert_ne!((*window).rkey, 0);
        assert_eq!(ops.dealloc_mw.unwrap()(window), 0);
    }
    drop((a, b, pool, given, again, cq, pd, context));
    assert_eq!(ends.load(Ordering::Relaxed), 0, "the region exists");
    drop(region);
    assert_eq!(ends.load(Ordering::Relaxed), 3, "each of C's objects was destroyed once");
}
