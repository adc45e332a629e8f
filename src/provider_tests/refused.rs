//! A device rejects each verb at each call of a program that calls them all. The program gets an
//! error with the errno, and all objects that it had created are destroyed.

use std::cell::Cell;
use std::sync::Arc;

use super::SetControl;
use crate::device::{Can, CqModeration, DeviceMemory, PacketPacing};
use crate::ext::extended_posting::ExtendedPosting;
use crate::ext::on_demand::{Advice, OnDemand};
use crate::ext::tuning::{Moderation, RateLimit};
use crate::ext::xrc::XrcdFile;
use crate::loopback::{Fabric, LOOPBACK};
use crate::prelude::*;
use crate::qp::{AnyQueuePair, Drain, QpCreateFlags, RcReturn};
use crate::sys::control::Control;
use crate::terms::error::Error;

thread_local! {
    /// The verb that fails, and the number of its calls that succeed first.
    static REFUSED: Cell<(&'static str, u32)> = const { Cell::new(("", 0)) };
    /// The calls of that verb.
    static CALLS: Cell<u32> = const { Cell::new(0) };
}

/// An errno that no loopback device returns, and that the crate does not explain.
const ERRNO: i32 = libc::EDQUOT;

fn is_refused(verb: &str) -> bool {
    let (refused, answered) = REFUSED.get();
    if refused != verb {
        return false;
    }
    CALLS.set(CALLS.get() + 1);
    CALLS.get() == answered + 1
}

/// The loopback's table. Its functions fail with `ERRNO` if they are selected.
macro_rules! table {
    ($($verb:ident($($arg:ident),*);)*) => {
        /// The verbs that can fail.
        const VERBS: &[&str] = &[$(stringify!($verb)),*];
        static REFUSING: Control = Control {
            $($verb: |$($arg),*| match is_refused(stringify!($verb)) {
                true => Err(ERRNO),
                // SAFETY: the arguments are passed on.
                false => unsafe { (LOOPBACK.$verb)($($arg),*) },
            },)*
            ..LOOPBACK
        };
    };
}

table! {
    query_device(c);
    query_device_ex(c);
    query_port(c, p);
    query_gid(c, p, i);
    query_gid_ex(c, p, i);
    query_gid_table(c, p);
    query_pkey(c, p, i);
    query_port_speed(c, p);
    alloc_pd(c);
    alloc_td(c);
    alloc_parent_domain(p, t);
    reg_mr(p, a, l, f, h);
    advise_mr(p, a, f, s);
    alloc_null_mr(p);
    alloc_dm(c, a);
    reg_dm_mr(p, d, o, l, f);
    create_ah(p, a);
    create_comp_channel(c);
    create_cq(c, n, h, v);
    resize_cq(c, n);
    modify_cq(c, a);
    open_xrcd(c, f, o);
    create_srq_ex(a);
    srq_num(s);
    create_srq(p, a);
    modify_srq(s, a, m);
    query_srq(s);
    create_qp(p, a);
    create_qp_ex(a);
    modify_qp(q, a, m);
    query_qp(q, m);
    modify_qp_rate_limit(q, a);
    set_ece(q, e);
    query_ece(q);
    attach_mcast(q, g, l);
    detach_mcast(q, g, l);
    async_fd(c);
    try_get_async_event(c);
}

profile! { OnSrq { receive: SharedRq } }
profile! { Direct { posting: ExtendedPosting } }
profile! { Initiating { receive: NoRq } }

const DEPTH: Depth = Depth { send: 2, recv: 2 };
const INIT: ConnectedInit = ConnectedInit { pkey_index: 0, port: 1, access: QpAccess::all() };

/// A connection to itself, through every state and back, by value.
fn connection(context: &Context, pd: &ProtectionDomain, cq: &CompletionQueue) -> Result<(), Error> {
    let psn = Psn::try_from(0)?;
    let vector = AddressVector::roce(1, context.query_gid(1, 1)?, 1);
    let qp = pd.create_qp::<Rc, DefaultProfile>(cq, cq, DEPTH)?;
    let peer = Qpn::try_from(qp.qp_num())?;
    let mut qp = qp.modify(INIT)?;
    let ece = qp.query_ece()?;
    qp.set_ece(ece)?;
    let qp = qp.modify(RcRtr::new(vector, peer, psn))?;
    let mut qp = qp.modify(RcRts::new(psn, ReadDepth::ONE))?;
    qp.query_ece()?;
    qp.query()?;
    qp.query_paths()?;
    if let Some(can) = context.abilities()?.can::<PacketPacing<Rc>>() {
        qp.limit_rate(&can, Some(RateLimit::kbps(1000)))?;
    }
    let qp = qp.modify(Drain { notify: false })?.into_sqd()?.modify(RcReturn::default())?;
    let qp = qp.to_error()?.reset()?;
    qp.destroy()?;
    Ok(())
}

/// The same in place.
fn in_place(context: &Context, pd: &ProtectionDomain, cq: &CompletionQueue) -> Result<(), Error> {
    let psn = Psn::try_from(0)?;
    let vector = AddressVector::roce(1, context.query_gid(1, 1)?, 1);
    let qp = pd.create_qp::<Rc, DefaultProfile>(cq, cq, DEPTH)?;
    let mut qp = AnyQueuePair::from(qp);
    let peer = Qpn::try_from(qp.qp_num())?;
    qp.modify(INIT)?;
    qp.modify(RcRtr::new(vector, peer, psn))?;
    qp.modify(RcRts::new(psn, ReadDepth::ONE))?;
    qp.query()?;
    qp.modify(Drain { notify: true })?;
    qp.to_sqd()?;
    qp.modify::<Sqd, _>(RcReturn::default())?;
    qp.to_error()?;
    qp.reset()?;
    qp.destroy()?;
    Ok(())
}

fn datagrams(context: &Context, pd: &ProtectionDomain, cq: &CompletionQueue) -> Result<(), Error> {
    let gid = context.query_gid(1, 1)?;
    let qp = pd.create_qp::<Ud, Direct>(
        cq,
        cq,
        DEPTH.flags(QpCreateFlags { block_self_mcast_lb: true }),
    )?;
    let qkey = Qkey::try_from(1)?;
    let qp = qp.modify(UdInit { pkey_index: 0, port: 1, qkey: qkey.into() })?;
    let mut qp = qp.modify(UdRtr::default())?.modify(UdRts::new(Psn::try_from(0)?))?;
    let group = crate::device::Gid([0xff; 16]);
    qp.attach_mcast(group, 0)?;
    qp.detach_mcast(group, 0)?;
    qp.add_address_handle(pd.create_ah(AddressVector::roce(1, gid, 1))?)?;
    qp.destroy()?;
    Ok(())
}

fn program(context: &Context) -> Result<(), Error> {
    context.query_device()?;
    context.query_port(1)?;
    context.query_gid_entry(1, 1)?;
    context.gid_table(1)?;
    context.query_pkey(1, 0)?;
    context.pkey_index(1, 0xffff)?;
    context.query_port_speed(1)?;
    context.events()?.try_next()?;
    let abilities = context.abilities()?;
    let pd = context.alloc_pd()?;
    let channel = context.create_comp_channel()?;
    let mut cq: CompletionQueue = context.cq(16).channel(&channel).create()?;
    cq.resize(32)?;
    let can: Option<Can<CqModeration>> = abilities.can();
    cq.moderate(&can.expect("it can"), Moderation::new(2, 2))?;

    let pool = pd.create_pool(2, 64)?;
    let region = pd.register::<RemoteRead>(64)?;
    region.rereg_access::<RemoteWrite>()?.destroy()?;
    let can = abilities.can::<OnDemand<Rc, RemoteRead>>().expect("it can");
    let region = pd.region().on_demand(&can).create_in(vec![7u8; 64])?;
    region.prefetch(Advice::Prefetch, 0, 8)?;
    region.destroy()?;
    pd.alloc_null_mr()?.destroy()?;
    let can: Option<Can<DeviceMemory>> = abilities.can();
    let dm = context.alloc_dm(&can.expect("it can"), 64, 0)?;
    pd.register_dm::<LocalWrite>(dm)?.destroy()?.destroy()?;

    let mut srq: SharedReceiveQueue<Rc> = pd.create_srq(&pool)?;
    srq.query()?;
    srq.arm_limit(1)?;
    srq.resize(4)?;
    pd.create_qp::<Rc, OnSrq>(&cq, &cq, Depth::on_srq(2, &srq))?.destroy()?;
    srq.destroy()?;

    connection(context, &pd, &cq)?;
    in_place(context, &pd, &cq)?;
    datagrams(context, &pd, &cq)?;

    let can = abilities.can::<Xrc>().expect("it can");
    let domain = context.open_xrcd(&can, XrcdFile::Private)?;
    let target = domain.create_target()?;
    target.query()?;
    target.modify(INIT)?.to_error()?.reset()?.destroy()?;
    pd.create_xrc_initiator::<Initiating>(&can, &cq, 1)?.destroy()?;
    let srq: SharedReceiveQueue<Xrc> = domain.create_srq(&pd, &pool, &cq)?;
    srq.destroy()?;
    domain.close()?;

    let lane = pd.alloc_lane()?;
    drop(lane);
    pool.destroy()?;
    cq.destroy()?;
    channel.destroy()?;
    pd.destroy()?;
    Ok(())
}

/// The result of the program if the `n`th call of a verb fails, and whether there was such a call.
fn refused_at(verb: &'static str, n: u32) -> (Result<(), Error>, bool) {
    let mut context = Fabric::new().open_alone();
    Arc::get_mut(&mut context.handle).unwrap().set_control(&REFUSING);
    REFUSED.set((verb, n));
    CALLS.set(0);
    let result = program(&context);
    REFUSED.set(("", 0));
    let was_refused = CALLS.get() > n;
    context.destroy().unwrap_or_else(|refused| panic!("{verb} {n} left something: {refused}"));
    (result, was_refused)
}

#[test]
fn each_refusal_is_told_and_leaves_nothing() {
    let mut untold = Vec::new();
    for &verb in VERBS {
        let mut n = 0;
        loop {
            let (result, was_refused) = refused_at(verb, n);
            match result {
                Ok(()) if !was_refused => break,
                Ok(()) => untold.push(verb),
                Err(error) => assert_eq!(error.errno(), Some(ERRNO), "{verb} {n}: {error}"),
            }
            n += 1;
        }
        assert_ne!(n, 0, "the program calls {verb}");
    }
    // A transition to INIT queries the longest message of the port, and so does a later one to RTS.
    assert_eq!(untold, ["query_port"; 2]);
}
