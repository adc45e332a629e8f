//! The verb's arguments when a queue pair is created, and what is rejected before the call.

#![allow(unsafe_code)] // forwards verbs

use super::*;
use crate::ext::extended_posting::ExtendedPosting;
use crate::loopback::Fabric;
use crate::prelude::*;
use crate::provider_tests::device_with;

/// A queue pair of extended posting is created with the operations that may be posted to it, and no
/// others, because a device may lack others.
/// Proves R27.7.
#[test]
fn a_queue_pair_is_created_for_what_it_may_post() {
    use crate::loopback::LOOPBACK;
    use crate::sys::control::Control;
    profile! { Direct { posting: ExtendedPosting } }
    profile! { Writer { posting: ExtendedPosting, initiator: NoReads } }
    thread_local! {
        static ASKED: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
    }
    let control = Control {
        create_qp_ex: |init| {
            ASKED.set(init.send_ops_flags);
            Err(libc::EPERM)
        },
        create_srd_qp: |init, flags| {
            ASKED.set(init.send_ops_flags | u64::from(flags) << 32);
            Err(libc::ENOSYS)
        },
        ..LOOPBACK
    };
    let context = device_with(Fabric::new(), control);
    let pd = context.alloc_pd().unwrap();
    let cq: CompletionQueue = context.create_cq(16).unwrap();
    macro_rules! of_srd {
        ($profile:ty) => {{
            let depth = Depth { send: 1, recv: 1 };
            let error = pd.create_qp::<Srd, $profile>(&cq, &cq, depth).unwrap_err();
            assert_eq!((error.verb(), error.errno()), ("efadv_create_qp_ex", Some(libc::ENOSYS)));
            assert!(error.to_string().contains("ibverbs-providers"), "{error}");
            ASKED.take()
        }};
    }
    macro_rules! asked {
        ($transport:ty, $profile:ty) => {{
            let depth = Depth { send: 1, recv: 1 };
            let error = pd.create_qp::<$transport, $profile>(&cq, &cq, depth).unwrap_err();
            assert_eq!((error.verb(), error.errno()), ("ibv_create_qp_ex", Some(libc::EPERM)));
            ASKED.take()
        }};
    }
    // IBV_QP_EX_WITH_SEND and SEND_WITH_IMM are 4 and 8, WRITE and WRITE_WITH_IMM 1 and 2; 0x70 are
    // READ and atomics, 0x380 LOCAL_INV, BIND_MW and SEND_WITH_INV.
    assert_eq!((asked!(Ud, Direct), asked!(Ud, Writer)), (0xc, 0xc));
    assert_eq!((asked!(Uc, Direct), asked!(Uc, Writer)), (0xf, 0xf));
    assert_eq!((asked!(Rc, Direct), asked!(Rc, Writer)), (0x3ff, 0x38f));
    // READ is 0x10. EFADV_QP_FLAGS_INLINE_WRITE is 2, if WRITEs may have inline data.
    profile! { Spread { posting: ExtendedPosting<(Srd, wr::RdmaWrite)> } }
    profile! { NoInline { posting: ExtendedPosting<(Srd, wr::RdmaWrite)>, max_inline: 0 } }
    profile! { Reader { posting: ExtendedPosting<Srd> } }
    profile! { Sender { posting: ExtendedPosting<Srd>, initiator: NoReads } }
    assert_eq!((of_srd!(Spread), of_srd!(NoInline)), (0x2_0000_001f, 0x1f));
    profile! { Scatterer { posting: ExtendedPosting<(Srd, wr::RdmaWrite)>, initiator: NoReads } }
    assert_eq!((of_srd!(Reader), of_srd!(Sender)), (0x1c, 0xc));
    assert_eq!(of_srd!(Scatterer), 0x2_0000_000f);
    // An initiator of XRC has no BIND_MW and LOCAL_INV.
    profile! { Initiating { posting: ExtendedPosting, receive: NoRq } }
    profile! { Modest { posting: ExtendedPosting, receive: NoRq, initiator: NoReads } }
    macro_rules! of_xrc {
        ($profile:ty) => {{
            let can = context.abilities().unwrap().can::<Xrc>().unwrap();
            let error = pd.create_xrc_initiator::<$profile>(&can, &cq, 1).unwrap_err();
            assert_eq!((error.verb(), error.errno()), ("ibv_create_qp_ex", Some(libc::EPERM)));
            ASKED.take()
        }};
    }
    assert_eq!((of_xrc!(Initiating), of_xrc!(Modest)), (0x27f, 0x20f));
    assert_eq!(cq.unbooked(), cq.capacity(), "a failed creation reserves no entries");
}

/// A queue pair without a receive queue asks the device for no receives, which some devices reject.
#[test]
fn a_queue_pair_asks_for_receives_only_if_it_has_a_receive_queue() {
    use crate::loopback::{LOOPBACK, World};
    use crate::sys::control::Control;
    profile! { Scatters { max_recv_sge: 3 } }
    profile! { OnSrq { receive: SharedRq, max_recv_sge: 3 } }
    thread_local! {
        static ASKED: std::cell::Cell<[u32; 2]> = const { std::cell::Cell::new([0; 2]) };
    }
    let control = || Control {
        create_qp: |_, init| {
            // SAFETY: the caller passes attributes that live during the call.
            let cap = unsafe { &(*init).cap };
            ASKED.set([cap.max_recv_wr, cap.max_recv_sge]);
            Err(libc::EPERM)
        },
        ..LOOPBACK
    };
    for (world, least) in [(World::ipv4(), 0), (World::iwarp(), 1)] {
        let context = device_with(Fabric::with(world), control());
        let pd = context.alloc_pd().unwrap();
        let cq: CompletionQueue = context.create_cq(16).unwrap();
        let own = |recv| {
            let depth = Depth { send: 1, recv };
            pd.create_qp::<Rc, Scatters>(&cq, &cq, depth).unwrap_err();
            ASKED.take()
        };
        assert_eq!([own(0), own(2)], [[least, 3], [2, 3]]);
        let pool = pd.create_pool(2, 8).unwrap();
        let srq: SharedReceiveQueue<Rc> = pd.create_srq(&pool).unwrap();
        pd.create_qp::<Rc, OnSrq>(&cq, &cq, Depth::on_srq(1, &srq)).unwrap_err();
        assert_eq!(ASKED.take(), [0, 0]);
    }
}

/// The error contains the requested options, and no others.
#[test]
fn a_refusal_says_what_was_asked_for() {
    use crate::loopback::LOOPBACK;
    use crate::qp::QpCreateFlags;
    use crate::sys::control::Control;
    profile! { Direct { posting: ExtendedPosting, initiator: NoReads } }
    profile! { Spread { posting: ExtendedPosting<(Srd, wr::RdmaWrite)> } }
    profile! { Reader { posting: ExtendedPosting<Srd> } }
    let control = Control {
        create_qp: |_, _| Err(libc::EPERM),
        create_qp_ex: |_| Err(libc::EPERM),
        create_srd_qp: |_, _| Err(libc::EOPNOTSUPP),
        ..LOOPBACK
    };
    let context = device_with(Fabric::new(), control);
    let pd = context.alloc_pd().unwrap();
    let cq: CompletionQueue = context.create_cq(16).unwrap();
    let depth = Depth { send: 1, recv: 3 };
    let said = |result: Result<(), Error>| result.unwrap_err().to_string();
    let plain = said(pd.create_qp::<Ud, DefaultProfile>(&cq, &cq, depth).map(drop));
    let numbers = "UD with max_send_wr 2, max_recv_wr 3, max_send_sge 1, max_recv_sge 1, \
                   max_inline_data 64";
    assert!(plain.ends_with(&format!("({numbers})")), "{plain}");
    let none = QpCreateFlags { block_self_mcast_lb: false };
    let some = QpCreateFlags { block_self_mcast_lb: true };
    let create = |flags| pd.create_qp::<Ud, DefaultProfile>(&cq, &cq, depth.flags(flags)).map(drop);
    assert_eq!(said(create(none)), plain);
    let flagged = said(create(some));
    assert!(flagged.ends_with(&format!("({numbers}, {some:?})")), "{flagged}");
    let create = |flags| pd.create_qp::<Ud, Direct>(&cq, &cq, depth.flags(flags)).map(drop);
    let ops = said(create(none));
    assert!(ops.ends_with(&format!("({numbers}, send_ops_flags 0xc)")), "{ops}");
    let both = said(create(some));
    assert!(both.ends_with(&format!("({numbers}, {some:?}, send_ops_flags 0xc)")), "{both}");
    // A device of SRD without RDMA WRITE supports the queue pair without it.
    let reads = said(pd.create_qp::<Srd, Reader>(&cq, &cq, depth).map(drop));
    let writes = said(pd.create_qp::<Srd, Spread>(&cq, &cq, depth).map(drop));
    let instead = "one without RDMA WRITE";
    assert!(!reads.contains(instead) && writes.contains(instead), "{reads} {writes}");
}

/// The error names what the device lacks, and nothing that it has. It distinguishes a provider or a
/// library that is too old from a device.
#[test]
fn what_of_flush_and_atomic_write_is_missing_is_named() {
    use crate::loopback::LOOPBACK;
    use crate::sys::control::Control;
    profile! { Flushing { posting: ExtendedPosting<ext::persistence::Flush> } }
    profile! { Publishing { posting: ExtendedPosting<ext::persistence::AtomicWrite> } }
    profile! { Both { posting: ExtendedPosting<(ext::persistence::Flush, ext::persistence::AtomicWrite)> } }
    thread_local! {
        /// `IBV_DEVICE_FLUSH_GLOBAL`, `_PERSISTENT` and `IBV_DEVICE_ATOMIC_WRITE` of the device.
        static HAS: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
    }
    type Create = fn(&ProtectionDomain, &CompletionQueue) -> Result<(), Error>;
    let refused = |has: u64, create: Create| {
        HAS.set(has << 38);
        let control = Control {
            query_device_ex: |context| {
                // SAFETY: the context comes from the caller.
                let mut attr = unsafe { (LOOPBACK.query_device_ex)(context) }?;
                attr.device_cap_flags_ex &= !(0b111 << 38);
                attr.device_cap_flags_ex |= HAS.get();
                Ok(attr)
            },
            create_qp_ex: |_| Err(libc::EOPNOTSUPP),
            ..LOOPBACK
        };
        let context = device_with(Fabric::new(), control);
        let (pd, cq) = (context.alloc_pd().unwrap(), context.create_cq(16).unwrap());
        create(&pd, &cq).unwrap_err().to_string()
    };
    const DEPTH: Depth = Depth { send: 1, recv: 1 };
    let flush: Create = |pd, cq| pd.create_qp::<Rc, Flushing>(cq, cq, DEPTH).map(drop);
    let publish: Create = |pd, cq| pd.create_qp::<Rc, Publishing>(cq, cq, DEPTH).map(drop);
    let register: Create = |pd, _| {
        pd.register::<crate::ext::persistence::Persistent<crate::memory::RemoteWrite>>(8).map(drop)
    };
    let said = refused(0b001, register);
    assert!(said.contains("has no FLUSH_PERSISTENT:"), "{said}");
    let both: Create = |pd, cq| pd.create_qp::<Rc, Both>(cq, cq, DEPTH).map(drop);
    // Combinations of mlx5's devices, and one that no device has.
    for (has, create, lacks) in [
        (0b100, flush, "has no FLUSH:"),
        (0b011, publish, "has no ATOMIC_WRITE:"),
        (0b100, both, "has no FLUSH:"),
        (0b001, both, "has no ATOMIC_WRITE:"),
        (0b000, both, "has no FLUSH and ATOMIC_WRITE:"),
    ] {
        let said = refused(has, create);
        assert!(said.contains(lacks), "{said}");
    }
    // The device has them, and its provider does not. Either kind of FLUSH is enough to try.
    for (has, create, of) in [
        (0b001, flush, "without FLUSH"),
        (0b010, flush, "without FLUSH"),
        (0b100, publish, "without ATOMIC_WRITE"),
        (0b101, both, "without FLUSH and ATOMIC_WRITE"),
    ] {
        let said = refused(has, create);
        assert!(said.contains("use a newer rdma-core") && said.contains(of), "{said}");
    }
}

/// On iWARP, a queue pair that C created cannot be a ring either
/// ([R24.13](crate::guide::rules#r24-13)).
#[test]
fn a_ring_is_not_taken_over_on_iwarp() {
    profile! { Writing { initiator: NoReads } }
    profile! { Ring { signaling: Selective, initiator: NoReads } }
    let context = Fabric::with(crate::loopback::World::iwarp()).open_device();
    let (pd, cq) = (context.alloc_pd().unwrap(), context.create_cq::<Buf>(40).unwrap());
    let depth = Depth { send: 4, recv: 4 };
    let qp = pd.create_qp::<Rc, Writing>(&cq, &cq, depth).unwrap();
    let c = std::ptr::NonNull::new(qp.core.qp()).unwrap();
    // SAFETY: the queue pair is live, and the call fails, so its owner keeps it.
    let refused = unsafe { pd.qp_from_raw::<Rc, Reset, Ring>(c, &cq, &cq, depth) };
    let said = refused.unwrap_err().to_string();
    assert!(
        said.contains("selective signaling") && said.contains("`signaling: SignalAll`"),
        "{said}"
    );
}
