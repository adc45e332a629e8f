use std::ops::Bound;

use super::*;
use crate::device::OdpCaps;
use crate::loopback::{self, Fabric, LOOPBACK};
use crate::prelude::*;
use crate::provider_tests::{SetControl, device_with};
use crate::sys::control::Control;
use crate::terms::error::ErrorKind;

type Both = (wr::Send, wr::RdmaWrite);

crate::profile! { Mixed { entry: AnyBuf } }

fn all(pd: &ProtectionDomain, context: &Context) -> ImplicitRegion<Rc, Both> {
    let can = context.abilities().unwrap().can().unwrap();
    pd.register_implicit(&can).unwrap()
}

/// Memory without its own region arrives at the peer, and returns to its owner.
/// Proves R20.7.
#[test]
fn what_was_given_is_sent() {
    let loopback::Pair { mut a, mut b, mut cq, pd, context, pool, .. } =
        loopback::pair_of::<Mixed>().unwrap();
    let all = all(&pd, &context);
    let there = pd.register::<RemoteWrite>(64).unwrap();
    let given = vec![0x0807_0605_0403_0201_u64.to_le(); 2];
    let mut words = all.adopt(given).unwrap().part(1..9).unwrap();
    words.set_id(42);
    let constant: ImplicitBuf<Rc, Both> = all.adopt(&b"not on the heap"[..]).unwrap();
    b.post_recv(wr::Recv::new(pool.take().unwrap())).unwrap();
    a.post_send(wr::Send::paged(words.clone())).unwrap();
    a.post_send(wr::RdmaWrite::paged(constant, there.remote().write())).unwrap();
    let mut sent = Vec::new();
    for entry in loopback::poll(&mut cq, 3).unwrap().into_iter().flatten() {
        match entry {
            AnyBuf::Implicit(buf) => sent.push(buf),
            other => assert_eq!(&other.into_buf().unwrap()[..], [2, 3, 4, 5, 6, 7, 8, 1]),
        }
    }
    let mut read = [0; 15];
    there.read_at(0, &mut read).unwrap();
    assert_eq!(&read, b"not on the heap");
    let [one, two] = sent.try_into().unwrap();
    assert_eq!((one.id(), one.handles()), (42, 2));
    assert_eq!(two.into_memory::<&'static [u8]>().unwrap(), b"not on the heap");
    let one = all.recognize(one).unwrap();
    let other = self::all(&pd, &context);
    let one = other.recognize(ImplicitBuf(one.0, PhantomData)).unwrap_err();
    let refused = all.destroy().unwrap_err();
    assert_eq!(refused.error.errno(), Some(libc::EBUSY));
    drop(one);
    assert_eq!(words.into_memory::<Vec<u64>>().unwrap().len(), 2);
    refused.into_object().destroy().unwrap();
}

/// A handle keeps memory and region, whatever is dropped before it. The last one drops both.
/// Proves R20.7.
#[test]
fn the_last_handle_drops_the_memory() {
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
    static DROPPED: AtomicUsize = AtomicUsize::new(0);
    struct Counted(Box<[u8; 16]>);
    impl Drop for Counted {
        fn drop(&mut self) {
            DROPPED.fetch_add(1, Relaxed);
        }
    }
    // SAFETY: the initialised bytes of a box, which no other code accesses.
    unsafe impl Memory for Counted {
        type Sharing = crate::memory::Private;
        type Protection = crate::memory::Writable;

        fn bytes(&mut self) -> std::ptr::NonNull<[u8]> {
            std::ptr::NonNull::from(&mut self.0[..])
        }
    }
    let loopback::Pair { a, b, cq, pd, context, .. } = loopback::pair().unwrap();
    let all = all(&pd, &context);
    let one = all.adopt(Counted(Box::new([5; 16]))).unwrap();
    drop((a, b, cq, pd, context, all));
    let two = std::thread::spawn(move || one.part(4..).unwrap()).join().unwrap();
    assert_eq!((&two[..], two.handles(), DROPPED.load(Relaxed)), (&[5; 12][..], 1, 0));
    drop(two);
    assert_eq!(DROPPED.load(Relaxed), 1);
}

/// The arguments of the verb: no address, all lengths, and neither rights for peers nor write
/// access.
///
/// The implicit region grants peers no access.
/// Proves R20.7.
#[test]
fn the_region_is_all_memory_to_be_read() {
    use crate::sys::control::{Created, Holds};
    thread_local! {
        static SEEN: std::cell::RefCell<Vec<String>> = const { std::cell::RefCell::new(Vec::new()) };
    }
    unsafe fn reg_mr(
        pd: *mut crate::sys::types::ibv_pd,
        addr: *mut u8,
        length: usize,
        access: u32,
        holds: Holds,
    ) -> Created<crate::sys::types::ibv_mr> {
        let saw = format!("{addr:?}, {length:#x}, {access:#x}");
        SEEN.with_borrow_mut(|seen| seen.push(saw));
        // SAFETY: the caller satisfies the contract of `reg_mr`, and all arguments are passed on.
        unsafe { (LOOPBACK.reg_mr)(pd, addr, length, access, holds) }
    }
    let context = device_with(Fabric::new(), Control { reg_mr, ..LOOPBACK });
    let pd = context.alloc_pd().unwrap();
    let all = all(&pd, &context);
    let (one, two) = (all.adopt(vec![1u8; 8]).unwrap(), all.adopt(vec![2u8; 8]).unwrap());
    assert_eq!(SEEN.take(), ["0x0, 0xffffffffffffffff, 0x40"]);
    assert_eq!(one.0.header().lkey(), two.0.header().lkey());
    assert_eq!(format!("{all:?}, {one:?}"), "ImplicitRegion { .. }, ImplicitBuf(8 bytes)");
}

/// Memory that is too long for one element, or that the region may not read, is returned.
///
/// Memory that ends beyond a short implicit region is rejected.
#[test]
fn memory_that_is_refused_comes_back() {
    let context = Fabric::new().open_device();
    let pd = context.alloc_pd().unwrap();
    let all = all(&pd, &context);
    let refused = all.adopt(Vec::<u8>::new()).unwrap_err();
    assert_eq!(refused.error.errno(), Some(libc::EINVAL));
    assert!(refused.into_object().is_empty());
    let whole = all.adopt(vec![9u8; 8]).unwrap();
    for (range, offset, len) in [(3..9, 3, 6), (9..9, 9, 0)] {
        let error = whole.part(range).unwrap_err();
        assert_eq!((error.offset, error.len, error.available), (offset, len, 8));
    }
    let (from, to) = (std::hint::black_box(5), 4);
    assert!(whole.part(from..to).is_err());
    assert_eq!(whole.part(2..=3).unwrap().len(), 2);
    assert_eq!(whole.part(8..).unwrap().len(), 0);
    let after = (Bound::Excluded(1), Bound::Unbounded);
    assert_eq!(whole.part(after).unwrap().len(), 6);
    drop(whole);
    all.destroy().unwrap();
}

/// A proof belongs to its context, and a failure has the device's errno.
/// Proves R20.6.
#[test]
fn a_region_needs_its_proof() {
    let fabric = Fabric::new();
    let (one, other) = (fabric.open_device(), fabric.open_device());
    let can = other.abilities().unwrap().can::<Implicit<Rc, Both>>().unwrap();
    assert_eq!(format!("{can:?}"), "Can(implicit on-demand paging)");
    let error = one.alloc_pd().unwrap().register_implicit(&can).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::ContextMismatch { .. }), "{error}");
    let mut context = Fabric::new().open_alone();
    let handle = Arc::get_mut(&mut context.handle).unwrap();
    let reg_mr = |_, _, _, _, _| Err(libc::ENOMEM);
    handle.set_control(Box::leak(Box::new(Control { reg_mr, ..LOOPBACK })));
    let can = context.abilities().unwrap().can::<Implicit<Rc, Both>>().unwrap();
    let error = context.alloc_pd().unwrap().register_implicit(&can).unwrap_err();
    assert_eq!(error.errno(), Some(libc::ENOMEM));
}

/// A device needs the implicit region, and each operation, on the transport.
/// Proves R20.6.
#[test]
fn the_proof_needs_region_and_operations() {
    let mut attr = Fabric::new().open_device().query_device_ex().unwrap();
    let mut has = |is_implicit, rc, uc| {
        attr.odp = OdpCaps::default();
        (attr.odp.is_supported, attr.odp.is_implicit) = (true, is_implicit);
        (attr.odp.rc, attr.odp.uc) = (rc, uc);
        [
            <Implicit<Rc, wr::Send>>::is_in(&attr),
            <Implicit<Rc, wr::RdmaWrite>>::is_in(&attr),
            <Implicit<Rc, Both>>::is_in(&attr),
            <Implicit<Uc, wr::Send>>::is_in(&attr),
        ]
    };
    let none = OdpOps::empty();
    assert_eq!(has(true, OdpOps::SEND, none), [true, false, false, false]);
    assert_eq!(has(true, OdpOps::WRITE, OdpOps::SEND), [false, true, false, true]);
    assert_eq!(has(true, OdpOps::SEND | OdpOps::WRITE, none), [true, true, true, false]);
    assert_eq!(has(true, OdpOps::all() - OdpOps::SEND - OdpOps::WRITE, none), [false; 4]);
    assert_eq!(has(false, OdpOps::all(), OdpOps::all()), [false; 4]);
}

/// A device rejects operations that the types exclude. Here the type of the handle is forged.
/// Proves R20.6.
#[test]
fn a_device_sends_only_what_it_told() {
    use crate::completion::WcStatus;
    use crate::device::OdpOps;
    use crate::loopback::Personality;
    let fabric = Fabric::with(Personality::worst(1)); // only SENDs over RC
    let context = fabric.open_device();
    let odp = context.query_device_ex().unwrap().odp;
    assert_eq!((odp.rc & (OdpOps::SEND | OdpOps::WRITE), odp.is_implicit), (OdpOps::SEND, true));
    assert!(context.abilities().unwrap().can::<Implicit<Rc, Both>>().is_none());
    let loopback::Pair { mut a, b: _b, mut cq, pd, context, .. } =
        loopback::pair_on::<Mixed>(fabric).unwrap();
    let can = context.abilities().unwrap().can::<Implicit<Rc, wr::Send>>().unwrap();
    let all = pd.register_implicit(&can).unwrap();
    let region = pd.register::<RemoteWrite>(64).unwrap();
    let forged = ImplicitBuf::<Rc, Both>(all.adopt(vec![7u8; 8]).unwrap().0, PhantomData);
    a.post_send(wr::RdmaWrite::paged(forged, region.remote().write())).unwrap();
    let mut failed = None;
    while failed.is_none() {
        for completion in cq.poll().unwrap() {
            if let crate::completion::Outcome::Failed(of) = completion.outcome() {
                failed = Some(of);
            }
        }
    }
    let failed = failed.unwrap();
    assert_eq!(failed.error.status, WcStatus::LocProt);
    assert!(matches!(failed.entry, Some(AnyBuf::Implicit(buf)) if buf.len() == 8));
}
