//! Devices that do not resize as requested.

#![allow(unsafe_code)] // replaces verbs

use super::*;
use crate::loopback::Fabric;
use crate::loopback::LOOPBACK;
use crate::prelude::*;
use crate::provider_tests::device_with;
use crate::sys::control::{Answer, Control};
use crate::terms::error::ErrorKind;

/// A queue with a pool of eight buffers, on a device with this `modify` verb.
fn queue(
    modify: unsafe fn(*mut ibv_srq, *mut ibv_srq_attr, i32) -> Answer,
) -> (SharedReceiveQueue<Rc>, Pool) {
    let context = device_with(Fabric::new(), Control { modify_srq: modify, ..LOOPBACK });
    let pd = context.alloc_pd().unwrap();
    let pool = pd.create_pool(8, 64).unwrap();
    (pd.create_srq(&pool).unwrap(), pool)
}

/// If more pools exist than there are numbers, a shared receive queue compares the pool itself.
#[test]
#[cfg_attr(miri, ignore = "as many numbers as there are")]
fn a_pool_without_a_number_feeds_its_queue() {
    use crate::counters::ids::PoolNumber;
    use crate::counters::type_tag;
    use crate::post::PostErrorKind;
    let all: Vec<_> = (0..type_tag::POOLS).map(|_| PoolNumber::new()).collect();
    let pd = Fabric::new().open_device().alloc_pd().unwrap();
    let [own, other] = [(); 2].map(|()| pd.create_pool(2, 64).unwrap());
    drop(all);
    assert_eq!([&own, &other].map(|pool| pool.shared().number()), [type_tag::NO_POOL; 2]);
    let mut srq: SharedReceiveQueue<Rc> = pd.create_srq(&own).unwrap();
    srq.post_srq_recv(wr::Recv::new(own.take().unwrap())).unwrap();
    let refused = srq.post_srq_recv(wr::Recv::new(other.take().unwrap())).unwrap_err();
    assert_eq!(refused.kind(), PostErrorKind::ForeignPool);
    drop(refused);
    srq.post_srq_recv(wr::Recv::new(own.take().unwrap())).unwrap();
    assert_eq!((own.available(), other.available()), (0, 2));
}

#[test]
fn a_device_that_refuses_another_size() {
    let (mut srq, _pool) = queue(|_, _, _| Err(libc::EOPNOTSUPP));
    for max_wr in [4, 8, 16] {
        let error = srq.resize(max_wr).unwrap_err();
        assert_eq!((error.verb(), error.errno()), ("ibv_modify_srq", Some(libc::EOPNOTSUPP)));
    }
}

#[test]
fn a_device_that_grants_less_than_was_asked_for() {
    let (mut srq, _pool) = queue(|_, _, _| Ok(()));
    let before = srq.query().unwrap().max_wr;
    srq.resize(before).unwrap();
    let error = srq.resize(before + 1).unwrap_err();
    let (asked, max) = (u64::from(before) + 1, before.into());
    assert_eq!(*error.kind(), ErrorKind::Limit { what: "max_wr", asked, max });
    // Its queues hold as many as it reports, and no more.
    let most = Fabric::new().open_device().query_device().unwrap().max_srq_wr;
    for (asked, max) in [(most, before), (most + 1, most)] {
        let (error, asked, max) = (srq.resize(asked).unwrap_err(), asked.into(), max.into());
        assert_eq!(*error.kind(), ErrorKind::Limit { what: "max_wr", asked, max });
    }
}

/// Some devices lose their queue when they reject a resize, so the crate never requests less than
/// is posted.
/// Proves R18.21.
#[test]
fn a_device_is_not_asked_for_less_than_is_posted() {
    let (mut srq, pool) = queue(|_, _, _| unreachable!("it is asked"));
    for _ in 0..3 {
        srq.post_srq_recv(wr::Recv::new(pool.take().unwrap())).unwrap();
    }
    for max_wr in [0, 1, 2] {
        let error = srq.resize(max_wr).unwrap_err();
        assert_eq!((error.verb(), error.errno()), ("ibv_modify_srq", Some(libc::EINVAL)));
    }
}
