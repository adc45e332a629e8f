use super::*;
use crate::cm::id::Core;
use crate::cm::state::BoundToDevice;
use crate::provider_tests::cm as stub;
use crate::sys::types::raw::rdma_cm_event_type as Type;

const JOIN: u32 = Type::RDMA_CM_EVENT_MULTICAST_JOIN;
const ERROR: u32 = Type::RDMA_CM_EVENT_MULTICAST_ERROR;
const REMOVAL: u32 = Type::RDMA_CM_EVENT_DEVICE_REMOVAL;

fn joining() -> Joining {
    let address = "239.77.0.1:7471".parse().unwrap();
    let (id, failed) = (IdKey(7), Failed::default());
    Joining { id, key: 9, address, failed, joined: false, verb: VERB, member: PhantomData }
}

fn event(id: u64, group: u64, kind: u32, status: i32) -> Event {
    Event { copied: stub::event(id, group, kind, status) }
}

#[test]
fn an_event_of_another_id_or_group_changes_nothing() {
    let mut joining = joining();
    let failed = joining.failed.clone();
    for (id, group) in [(8, 9), (7, 10), (8, 10)] {
        for (kind, status) in [(JOIN, 0), (ERROR, -22)] {
            let step = joining.advance(&event(id, group, kind, status));
            let Progress::Waiting(waiting) = step else { panic!("not its event") };
            joining = waiting;
        }
    }
    let Progress::Done(group) = joining.advance(&event(7, 9, JOIN, 0)) else { panic!("its event") };
    assert_eq!((group.key, group.address.port(), failed.is_set()), (9, 7471, false));
    assert_eq!((group.peer.qpn.get(), group.peer.qkey.get()), (0xff_ffff, 0x0123_4567));
}

/// The failure is noted, so that the id can join the address again.
#[test]
fn a_group_that_was_not_joined_is_noted() {
    for (kind, status) in [(ERROR, -22), (JOIN, -110)] {
        let joining = joining();
        let failed = joining.failed.clone();
        assert!(!failed.is_set());
        let Progress::Failed(refused) = joining.advance(&event(7, 9, kind, status)) else {
            panic!("it failed")
        };
        let ErrorKind::Cm { status: told, .. } = *refused.error.kind() else {
            panic!("{}", refused.error)
        };
        assert_eq!((told, failed.is_set()), (status, true));
    }
}

/// This event does not name a group, and none follows it.
///
/// A wait for a multicast join ends when the device is removed.
#[test]
fn a_join_is_told_that_its_device_goes() {
    let joining = joining();
    let failed = joining.failed.clone();
    let Progress::Waiting(joining) = joining.advance(&event(8, 0, REMOVAL, 0)) else {
        panic!("another id's")
    };
    let Progress::Failed(refused) = joining.advance(&event(7, 0, REMOVAL, 0)) else {
        panic!("it is told")
    };
    let told = ErrorKind::Cm { event: "RDMA_CM_EVENT_DEVICE_REMOVAL", status: 0 };
    assert_eq!((refused.error.kind(), failed.is_set()), (&told, true));
}

/// The event may have been taken earlier, perhaps from another channel.
#[test]
#[cfg_attr(miri, ignore = "eventfd(2)")]
fn nobody_sleeps_for_a_group_of_a_device_that_went() {
    let seen = stub::id(7, Some((REMOVAL, -19)));
    let mut id = CmId::<Udp, BoundToDevice>::from_core(Core::new(seen));
    let far = Duration::from_secs(60);
    let error = id.finish_join(joining(), far).unwrap_err();
    let told = ErrorKind::Cm { event: "RDMA_CM_EVENT_DEVICE_REMOVAL", status: -19 };
    assert_eq!(*error.kind(), told);
    std::mem::forget(id);
}
