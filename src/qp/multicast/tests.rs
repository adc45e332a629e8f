//! Groups, on a device that records attachments and detachments.

#![allow(unsafe_code)] // forwards one verb

use crate::provider_tests::SetControl;
use std::cell::RefCell;

use super::*;
use crate::loopback::Fabric;
use crate::loopback::LOOPBACK;
use crate::prelude::*;
use crate::sys::control::{Answer, Control};
use crate::sys::types::ibv_qp;

crate::profile! { OnSrq { receive: SharedRq } }

thread_local! {
    static CALLS: RefCell<Vec<(&str, u16)>> = const { RefCell::new(Vec::new()) };
    /// The results of the next attachments and detachments.
    static ANSWER: RefCell<Answer> = const { RefCell::new(Ok(())) };
}

fn note(call: &'static str, lid: u16) -> Answer {
    CALLS.with_borrow_mut(|calls| calls.push((call, lid)));
    if call == "destroy" { Ok(()) } else { ANSWER.with_borrow(|answer| *answer) }
}

fn destroy(qp: *mut ibv_qp) -> Answer {
    note("destroy", 0)?;
    // SAFETY: the arguments come from the caller, which keeps the verb's contract.
    unsafe { (LOOPBACK.destroy_qp)(qp) }
}

/// Makes the device of a queue pair record its calls from now on.
fn noted<P: Profile>(mut qp: QueuePair<Ud, Reset, P>) -> QueuePair<Ud, Init, P> {
    qp.core.handle.set_control(Box::leak(Box::new(Control {
        attach_mcast: |_, _, lid| note("attach", lid),
        detach_mcast: |_, _, lid| note("detach", lid),
        destroy_qp: |qp| destroy(qp),
        ..LOOPBACK
    })));
    let qkey = Qkey::new(0x1111).unwrap().into();
    qp.modify(UdInit { pkey_index: 0, port: 1, qkey }).unwrap()
}

const GROUP: Gid = Gid([0xff; 16]);

#[test]
fn a_queue_pair_leaves_its_groups_before_it_goes() {
    let context = Fabric::new().open_device();
    let pd = context.alloc_pd().unwrap();
    let mut cq = context.create_cq::<Buf>(64).unwrap();
    let depth = Depth { send: 2, recv: 2 };
    for drops in [true, false] {
        let mut qp = noted(pd.create_qp::<Ud, DefaultProfile>(&cq, &cq, depth).unwrap());
        for lid in 1..4 {
            qp.attach_mcast(GROUP, lid).unwrap();
        }
        assert!(qp.detach_mcast(GROUP, 2).unwrap());
        assert!(!qp.detach_mcast(GROUP, 2).unwrap(), "it is gone");
        match drops {
            true => drop(qp),
            false => qp.destroy().unwrap(),
        }
        let mut calls = CALLS.take();
        calls[4..6].sort();
        let joins = [("attach", 1), ("attach", 2), ("attach", 3), ("detach", 2)];
        let leaves = [("detach", 1), ("detach", 3), ("destroy", 0)];
        assert_eq!(calls, [&joins[..], &leaves[..]].concat());
    }
    // A deferred queue pair has left its groups, too.
    let pool = pd.create_pool(2, 64).unwrap();
    let mut srq: SharedReceiveQueue<Ud> = pd.create_srq(&pool).unwrap();
    srq.post_srq_recv(crate::wr::Recv::new(pool.take().unwrap())).unwrap();
    let mut qp = noted(pd.create_qp::<Ud, OnSrq>(&cq, &cq, Depth::on_srq(2, &srq)).unwrap());
    qp.attach_mcast(GROUP, 7).unwrap();
    drop(qp);
    assert_eq!(CALLS.take(), [("attach", 7), ("detach", 7)]);
    for _ in 0..4 {
        cq.poll().unwrap().for_each(drop);
    }
    assert_eq!(CALLS.take(), [("destroy", 0)]);
}

#[test]
fn a_device_that_refuses() {
    let context = Fabric::new().open_device();
    let pd = context.alloc_pd().unwrap();
    let cq = context.create_cq::<Buf>(64).unwrap();
    let depth = Depth { send: 2, recv: 2 };
    let mut qp = noted(pd.create_qp::<Ud, DefaultProfile>(&cq, &cq, depth).unwrap());
    ANSWER.set(Err(libc::ENOMEM));
    assert_eq!(qp.attach_mcast(GROUP, 1).unwrap_err().errno(), Some(libc::ENOMEM));
    assert!(!qp.detach_mcast(GROUP, 1).unwrap(), "it was not attached");
    ANSWER.set(Ok(()));
    qp.attach_mcast(GROUP, 1).unwrap();
    ANSWER.set(Err(libc::EIO));
    assert_eq!(qp.detach_mcast(GROUP, 1).unwrap_err().errno(), Some(libc::EIO));
    ANSWER.set(Ok(()));
    assert!(qp.detach_mcast(GROUP, 1).unwrap(), "it is attached still");
    CALLS.take();
}

/// A group that a queue pair could not leave is left when its destruction is tried again. Otherwise
/// it could never be left.
#[test]
fn a_group_that_is_left_at_the_second_try() {
    use crate::loopback::{Fault, Script};
    let fabric = Fabric::new();
    let context = fabric.open_device();
    let pd = context.alloc_pd().unwrap();
    let cq = context.create_cq::<Buf>(64).unwrap();
    let depth = Depth { send: 2, recv: 2 };
    let mut qp = noted(pd.create_qp::<Ud, DefaultProfile>(&cq, &cq, depth).unwrap());
    qp.attach_mcast(GROUP, 1).unwrap();
    ANSWER.set(Err(libc::EIO));
    fabric.inject(Script::default().with(Fault::Busy.nth(0)));
    let qp = qp.destroy().unwrap_err().into_object();
    ANSWER.set(Ok(()));
    qp.destroy().unwrap();
    let twice = [("detach", 1), ("destroy", 0), ("detach", 1), ("destroy", 0)];
    assert_eq!(CALLS.take()[1..], twice);
}
