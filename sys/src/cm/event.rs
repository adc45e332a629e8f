//! Events, copied out of librdmacm before they are acknowledged.

use std::ffi::c_int;
use std::ptr;
use std::ptr::NonNull;
use std::sync::Arc;

use super::{Channel, Id, Life, RDMA_CM_EVENT_USER, Seen};
use crate::types::*;

/// An owned copy of an event (R16.12: the pointers of the C event are invalid after it is
/// acknowledged).
pub struct Copied {
    /// The key of the id that the event is for; for a connection request, the listening id.
    pub key: u64,
    /// The life of that id.
    pub life: Life,
    /// `RDMA_CM_EVENT_*`.
    pub event: u32,
    pub status: c_int,
    pub arm: Arm,
    /// Private data as the peer sent it, perhaps padded with zeroes (R16.15).
    pub data: Vec<u8>,
    /// The id of a connection request. Dropping it destroys the id, which rejects the request.
    pub request: Option<Id>,
}

/// The parameters of a peer, or the parameters that the peer requests, as seen from this side.
#[doc(alias = "rdma_conn_param")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct PeerParam {
    /// The maximum number of reads and atomics of the peer that this side may have to serve at
    /// once.
    pub responder_resources: u8,
    /// Reads and atomics that this side may have outstanding.
    pub initiator_depth: u8,
    /// Transport retries that the peer requests from this side; 7 means "forever" on Soft-RoCE
    /// (R8.10).
    pub retry_count: u8,
    /// RNR retries that the peer requests from this side; 7 means "forever".
    pub rnr_retry_count: u8,
    /// The peer's queue pair.
    pub qp_num: u32,
    /// Whether the peer receives from a shared receive queue.
    pub srq: bool,
}

/// The arm of the C union `param`.
pub enum Arm {
    /// The parameters of a connection.
    Conn(PeerParam),
    /// A datagram peer, or a multicast group.
    Ud {
        ah_attr: ibv_ah_attr,
        qp_num: u32,
        qkey: u32,
        /// The key of the group, if the event is about one.
        group: u64,
    },
    /// The data that the program wrote.
    User { arg: u64 },
}

/// # Safety
/// `event` was taken from `channel`, whose lock is held, and is not acknowledged.
pub(crate) unsafe fn copy(event: *mut raw::rdma_cm_event, channel: &Arc<Channel>) -> Copied {
    use raw::rdma_cm_event_type as Type;
    // SAFETY: the event is live, since it is not acknowledged (this function's contract).
    let event = unsafe { &*event };
    let is_request = event.event == Type::RDMA_CM_EVENT_CONNECT_REQUEST;
    let of = if is_request { event.listen_id } else { event.id };
    // SAFETY: librdmacm does not free an id whose event is not acknowledged. `context` and `ps` of
    // an id are set before it has events. The context points to the id's `Seen` (the invariant of
    // `Id`), which lives at least as long.
    let (seen, ps) = unsafe { (&*(*of).context.cast::<Seen>(), (*event.id).ps) };
    seen.see(event.event, event.status);
    let (key, life) = (seen.key, seen.life());
    let is_group = matches!(
        event.event,
        Type::RDMA_CM_EVENT_MULTICAST_JOIN | Type::RDMA_CM_EVENT_MULTICAST_ERROR
    );
    let (arm, data, len) = if event.event == RDMA_CM_EVENT_USER {
        // SAFETY: librdmacm fills this arm, the first eight bytes, and the union is aligned for it.
        let arg = unsafe { (&raw const event.param).cast::<u64>().read() };
        (Arm::User { arg }, ptr::null(), 0)
    } else if ps == raw::rdma_port_space::RDMA_PS_UDP || is_group {
        // SAFETY: librdmacm zeroes the event, and fills this arm for datagram ids.
        let ud = unsafe { event.param.ud };
        let group = if is_group { ud.private_data.addr() as u64 } else { 0 };
        let len = if is_group { 0 } else { ud.private_data_len };
        let (ah_attr, qp_num, qkey) = (ud.ah_attr, ud.qp_num, ud.qkey);
        (Arm::Ud { ah_attr, qp_num, qkey, group }, ud.private_data, len)
    } else {
        // SAFETY: librdmacm zeroes the event, and fills this arm for connected ids.
        let conn = unsafe { event.param.conn };
        let arm = Arm::Conn(PeerParam {
            responder_resources: conn.responder_resources,
            initiator_depth: conn.initiator_depth,
            retry_count: conn.retry_count,
            rnr_retry_count: conn.rnr_retry_count,
            qp_num: conn.qp_num,
            srq: conn.srq != 0,
        });
        (arm, conn.private_data, conn.private_data_len)
    };
    let data = if data.is_null() || len == 0 {
        Vec::new()
    } else {
        // SAFETY: librdmacm keeps `len` bytes of private data in the event.
        unsafe { std::slice::from_raw_parts(data.cast::<u8>(), len.into()) }.to_vec()
    };
    let request = NonNull::new(event.id).filter(|_| is_request).map(|id| {
        // SAFETY: the id of a request is new, so nothing else destroys it. It is on the listener's
        // channel, whose lock is held (this function's contract).
        unsafe { Id::adopt(id, channel.clone()) }
    });
    Copied { key, life, event: event.event, status: event.status, arm, data, request }
}

#[cfg(test)]
mod tests {
    use super::*;

    use super::super::LIBRDMACM;

    /// Copies an event of an id of port space `ps` with key 7, filled in as librdmacm does.
    fn copied(ps: u32, fill: impl FnOnce(&mut raw::rdma_cm_event)) -> Copied {
        copied_of(&Seen::of(7), ps, fill)
    }

    fn copied_of(seen: &Seen, ps: u32, fill: impl FnOnce(&mut raw::rdma_cm_event)) -> Copied {
        let mut id = zeroed::<raw::rdma_cm_id>();
        id.context = ptr::from_ref(seen).cast_mut().cast();
        id.ps = ps;
        let mut event = zeroed::<raw::rdma_cm_event>();
        event.id = &raw mut id;
        fill(&mut event);
        // This channel does not belong to librdmacm, so it must not be destroyed as one. SAFETY: it
        // is forgotten below.
        let channel = unsafe { Channel::of(NonNull::dangling(), &LIBRDMACM) };
        let channel = Arc::new(channel);
        // SAFETY: the event and its id are locals. It is not a request, so the channel is not used.
        let copied = unsafe { copy(&raw mut event, &channel) };
        std::mem::forget(Arc::try_unwrap(channel).ok().expect("the only reference"));
        copied
    }

    /// Whichever channel the event is taken from, a thread that checks the id later sees it.
    ///
    /// `wait_disconnected` does not sleep if the program took the DISCONNECTED event
    /// itself.
    #[test]
    fn the_end_is_recorded_when_its_event_is_taken() {
        use raw::rdma_cm_event_type::{RDMA_CM_EVENT_DEVICE_REMOVAL, RDMA_CM_EVENT_DISCONNECTED};
        let (seen, other) = (Seen::of(8), Seen::of(9));
        let take = |what: u32, status| {
            copied_of(&seen, raw::rdma_port_space::RDMA_PS_TCP, |event| {
                (event.event, event.status) = (what, status);
            })
        };
        assert_eq!(take(RDMA_CM_EVENT_DISCONNECTED, 0).key, 8);
        assert_eq!((seen.is_disconnected(), seen.removal()), (true, None));
        let last = take(RDMA_CM_EVENT_DEVICE_REMOVAL, -19);
        assert_eq!((seen.removal(), other.is_disconnected()), (Some(-19), false));
        assert!(!last.life.is_over());
        drop(seen);
        assert!(last.life.is_over());
    }

    #[test]
    fn private_data_is_a_copy() {
        let mut data = *b"not today";
        let at = (&raw const data).cast();
        let copied = copied(raw::rdma_port_space::RDMA_PS_TCP, |event| {
            event.event = raw::rdma_cm_event_type::RDMA_CM_EVENT_REJECTED;
            event.status = 28;
            // SAFETY: all zeroes is a value of this arm of the union.
            let conn = unsafe { &mut event.param.conn };
            (conn.private_data, conn.private_data_len) = (at, 9);
            (conn.initiator_depth, conn.responder_resources, conn.qp_num) = (3, 4, 0x11);
        });
        data.fill(0);
        assert_eq!((copied.key, copied.status, &copied.data[..]), (7, 28, &b"not today"[..]));
        assert!(copied.request.is_none());
        assert!(matches!(
            copied.arm,
            Arm::Conn(PeerParam {
                initiator_depth: 3,
                responder_resources: 4,
                qp_num: 0x11,
                srq: false,
                ..
            })
        ));
    }

    /// The context of a join is stored where other datagram events have their private data.
    #[test]
    fn an_event_without_a_group_has_no_group_key() {
        let data = *b"it is me";
        let copied = copied(raw::rdma_port_space::RDMA_PS_UDP, |event| {
            event.event = raw::rdma_cm_event_type::RDMA_CM_EVENT_ESTABLISHED;
            // SAFETY: all zeroes is a value of this arm of the union.
            let ud = unsafe { &mut event.param.ud };
            (ud.private_data, ud.private_data_len) = ((&raw const data).cast(), 8);
        });
        assert_eq!(copied.data, data);
        assert!(matches!(copied.arm, Arm::Ud { group: 0, .. }));
    }

    /// iWARP does not pad.
    #[test]
    fn private_data_may_be_one_byte() {
        let data = [7];
        let copied = copied(raw::rdma_port_space::RDMA_PS_TCP, |event| {
            // SAFETY: all zeroes is a value of this arm of the union.
            let conn = unsafe { &mut event.param.conn };
            (conn.private_data, conn.private_data_len) = ((&raw const data).cast(), 1);
        });
        assert_eq!(copied.data, data);
    }

    #[test]
    fn absent_private_data_is_not_read() {
        let copied = copied(raw::rdma_port_space::RDMA_PS_TCP, |event| {
            // SAFETY: all zeroes is a value of this arm of the union.
            let conn = unsafe { &mut event.param.conn };
            (conn.private_data, conn.private_data_len) = (ptr::null(), 56);
        });
        assert!(copied.data.is_empty());
    }

    /// The union would look like another event's pointer to private data.
    /// Proves R23.5.
    #[test]
    fn a_user_event_has_only_its_argument() {
        for ps in [raw::rdma_port_space::RDMA_PS_TCP, raw::rdma_port_space::RDMA_PS_UDP] {
            let copied = copied(ps, |event| {
                (event.event, event.status) = (RDMA_CM_EVENT_USER, 7);
                let at = (&raw mut event.param).cast::<[u64; 2]>();
                // SAFETY: the union is larger, and aligned for integers of this size.
                unsafe { at.write([0x1000, u64::MAX]) };
            });
            assert!(matches!(copied.arm, Arm::User { arg: 0x1000 }));
            assert!(copied.data.is_empty() && copied.request.is_none());
        }
    }

    #[test]
    fn a_multicast_event_has_its_group_and_no_private_data() {
        let copied = copied(raw::rdma_port_space::RDMA_PS_UDP, |event| {
            event.event = raw::rdma_cm_event_type::RDMA_CM_EVENT_MULTICAST_JOIN;
            // SAFETY: all zeroes is a value of this arm of the union.
            let ud = unsafe { &mut event.param.ud };
            // librdmacm puts the context of the join where private data would be.
            (ud.private_data, ud.private_data_len) = (ptr::without_provenance(9), 8);
            (ud.qp_num, ud.qkey) = (0xff_ffff, 0x0123_4567);
        });
        assert!(copied.data.is_empty());
        let Arm::Ud { group: 9, qp_num: 0xff_ffff, qkey: 0x0123_4567, .. } = copied.arm else {
            panic!("expected the datagram arm, with the group's key");
        };
    }
}
