use super::*;
use crate::device::OdpCaps;
use crate::ext::persistence::{Flushable, Persistent};
use crate::memory::{RemoteAll, RemoteAtomic, RemoteRead, RemoteReadWrite, RemoteWrite};
use crate::provider_tests::{SetControl, device_with};
use crate::terms::transport::{Rc, Uc, Ud};

fn has<T: Transport, A: Remote>(caps: &OdpCaps) -> bool {
    caps.has(T::QP_TYPE, needs(A::FLAGS))
}

/// Each right needs its operation, on its transport.
/// Proves R20.1.
#[test]
fn rights_need_operations() {
    let all = OdpOps::all();
    let of = |rc, uc, ud| {
        let mut caps = OdpCaps::default();
        (caps.is_supported, caps.rc, caps.uc, caps.ud) = (true, rc, uc, ud);
        caps
    };
    let rights = |caps: &OdpCaps| {
        [
            has::<Rc, RemoteRead>(caps),
            has::<Rc, RemoteWrite>(caps),
            has::<Rc, RemoteReadWrite>(caps),
            has::<Rc, RemoteAtomic>(caps),
            has::<Rc, RemoteAll>(caps),
        ]
    };
    let none = OdpOps::empty();
    assert_eq!(rights(&of(OdpOps::READ, all, all)), [true, false, false, false, false]);
    assert_eq!(rights(&of(OdpOps::WRITE, all, all)), [false, true, false, false, false]);
    assert_eq!(rights(&of(OdpOps::ATOMIC, all, all)), [false, false, false, true, false]);
    let both = OdpOps::READ | OdpOps::WRITE;
    assert_eq!(rights(&of(both, none, none)), [true, true, true, false, false]);
    assert_eq!(rights(&of(all, none, none)), [true; 5]);
    assert_eq!(rights(&of(all - both - OdpOps::ATOMIC, all, all)), [false; 5]);
    let mut unsupported = of(all, all, all);
    unsupported.is_supported = false;
    assert_eq!(rights(&unsupported), [false; 5]);
    let flushes = |caps: &OdpCaps| {
        [has::<Rc, Flushable<RemoteWrite>>(caps), has::<Rc, Persistent<RemoteRead>>(caps)]
    };
    assert_eq!(flushes(&of(OdpOps::WRITE | OdpOps::FLUSH, none, none)), [true, false]);
    assert_eq!(flushes(&of(OdpOps::READ | OdpOps::FLUSH, none, none)), [false, true]);
    assert_eq!(flushes(&of(all - OdpOps::FLUSH, all, all)), [false; 2]);
    assert!(has::<Uc, RemoteWrite>(&of(none, OdpOps::WRITE, none)));
    assert!(has::<Ud, RemoteWrite>(&of(none, none, OdpOps::WRITE)));
    assert!(!has::<Uc, RemoteWrite>(&of(all, none, all)));
}

/// A device, or its library, may lack the verbs. The error then suggests an alternative. Other
/// errors come from the verb.
#[cfg(feature = "loopback")]
#[test]
fn a_device_without_advice_or_null_regions() {
    use crate::loopback::{Fabric, LOOPBACK};
    use crate::sys::control::Control;
    let lacking = |control: Control| {
        let context = device_with(Fabric::new(), control);
        let pd = context.alloc_pd().unwrap();
        let can = context.abilities().unwrap().can::<OnDemand<Rc, RemoteRead>>().unwrap();
        let region = pd.region().on_demand(&can).create_in(vec![7u8; 64]).unwrap();
        let advised = [
            region.prefetch(Advice::Prefetch, 0, 8).unwrap_err(),
            region.start_prefetch(Advice::PrefetchWrite, 8, 56).unwrap_err(),
        ];
        region.prefetch(Advice::Prefetch, 64, 0).unwrap(); // the device is not called
        let [one, two] = advised.map(|error| error.to_string());
        (one, two, pd.alloc_null_mr().unwrap_err().to_string())
    };
    let none = |advise_mr, alloc_null_mr| Control { advise_mr, alloc_null_mr, ..LOOPBACK };
    let no_such_verb = lacking(none(|_, _, _, _| Err(libc::ENOSYS), |_| Err(libc::ENOSYS)));
    let no_such_advice =
        lacking(none(|_, _, _, _| Err(libc::EOPNOTSUPP), |_| Err(libc::EOPNOTSUPP)));
    for ((one, two, null), why) in [
        (no_such_verb, "ENOSYS: Function not implemented"),
        (no_such_advice, "EOPNOTSUPP: Operation not supported"),
    ] {
        let text = |asked: &str| {
            format!(
                "ibv_advise_mr: EOPNOTSUPP: Operation not supported ({asked}; the device or its \
                 library lacks this advice ({why}): leave it out: the device faults in pages on \
                 access)"
            )
        };
        assert_eq!(one, text("Prefetch of 8 bytes from 0 on"));
        assert_eq!(two, text("PrefetchWrite of 56 bytes from 8 on"));
        assert!(null.contains("post memory of a pool"), "{null}");
    }
    let (one, _, null) = lacking(none(|_, _, _, _| Err(libc::EPERM), |_| Err(libc::ENOMEM)));
    assert!(one.contains("EPERM") && one.contains("the region is read-only"), "{one}");
    assert!(null.starts_with("ibv_alloc_null_mr: ENOMEM"), "{null}");
    let (one, _, _) = lacking(none(|_, _, _, _| Err(libc::EFAULT), |_| Err(libc::ENOMEM)));
    assert!(one.contains("EFAULT") && !one.contains("read-only"), "{one}");
}

/// On Soft-RoCE, copies end up elsewhere, although its `odp_caps` claim support.
///
/// A region on demand grants no READ or WRITE on Soft-RoCE, which writes before the
/// region.
/// Proves R20.5.
#[cfg(feature = "loopback")]
#[test]
fn software_copies_to_elsewhere() {
    use crate::loopback::{Fabric, LOOPBACK};
    use crate::sys::control::Control;
    let abilities = |is_software| {
        let mut context = Fabric::new().open_alone();
        let handle = std::sync::Arc::get_mut(&mut context.handle).unwrap();
        let is_software = if is_software { |_| true } else { |_| false };
        handle.set_control(Box::leak(Box::new(Control { is_software, ..LOOPBACK })));
        let told = context.query_device_ex().unwrap().odp;
        assert!(told.rc.contains(OdpOps::all()));
        let abilities = context.abilities().unwrap();
        [
            abilities.can::<OnDemand<Rc, RemoteRead>>().is_some(),
            abilities.can::<OnDemand<Rc, RemoteWrite>>().is_some(),
            abilities.can::<OnDemand<Rc, Flushable<RemoteWrite>>>().is_some(),
            abilities.can::<OnDemand<Rc, RemoteAtomic>>().is_some(),
        ]
    };
    assert_eq!(abilities(false), [true; 4]);
    assert_eq!(abilities(true), [false, false, false, true]);
}

/// One advice waits for the device (`IBV_ADVISE_MR_FLAG_FLUSH`, 1), the other does not.
#[cfg(feature = "loopback")]
#[test]
fn what_advice_waits() {
    use crate::loopback::{Fabric, LOOPBACK};
    use crate::sys::control::Control;
    thread_local! {
        static TOLD: std::cell::RefCell<Vec<(u32, u32)>> = const { std::cell::RefCell::new(vec![]) };
    }
    let mut context = Fabric::new().open_alone();
    let handle = std::sync::Arc::get_mut(&mut context.handle).unwrap();
    let advise_mr = |_, advice, flags, _: &mut [_]| {
        TOLD.with_borrow_mut(|told| told.push((advice, flags)));
        Ok(())
    };
    handle.set_control(Box::leak(Box::new(Control { advise_mr, ..LOOPBACK })));
    let pd = context.alloc_pd().unwrap();
    let can = context.abilities().unwrap().can::<OnDemand<Rc, RemoteRead>>().unwrap();
    let region = pd.region().on_demand(&can).create_in(vec![7u8; 64]).unwrap();
    region.prefetch(Advice::Prefetch, 0, 64).unwrap();
    region.start_prefetch(Advice::PrefetchWrite, 0, 64).unwrap();
    assert_eq!(TOLD.take(), [(0, 1), (1, 0)]);
}

/// Proves R20.3.
#[test]
fn many_bytes_are_several_elements() {
    let list = |len| {
        let list = elements(0x1_0000, 7, len);
        assert!(list.iter().all(|sge| sge.lkey == 7));
        list.iter().map(|sge| (sge.addr, sge.length)).collect::<Vec<_>>()
    };
    const G: usize = 1 << 30;
    assert_eq!(list(1), [(0x1_0000, 1)]);
    assert_eq!(list(G), [(0x1_0000, G as u32)]);
    let two = (0x1_0000 + G as u64, G as u32);
    assert_eq!(list(2 * G + 5), [(0x1_0000, G as u32), two, (two.0 + G as u64, 5)]);
}
