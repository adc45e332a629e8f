//! Mistakes that newcomers make, and how the crate answers: one error per mistake, which names what
//! to write. Programs that do not compile are in `ui-tests/mistakes`, with the compiler's message.
//! The others are the tests below, each with its whole message.
//!
//! The forty most typical:
//!
//! Those that do not compile:
//!
//! 1. calls a method of `self` while the completions of the poll are borrowed:
//!    `a_method_of_self_in_the_poll_loop`
//! 2. sends a `Vec` instead of a registered buffer: `a_vec_is_sent`
//! 3. sends a region instead of a piece of it: `a_region_is_sent`
//! 4. sends a reference to a buffer, which its owner could change during the send:
//!    `a_reference_to_a_buffer_is_sent`
//! 5. drains a queue pair that is not in the error state: `drain_in_rts`
//! 6. gives a completion of another queue pair to `?`: `complete_with_a_question_mark`
//! 7. moves a lane to the thread that will use it: `a_lane_goes_to_a_thread`
//! 8. posts a buffer with a context on a queue of buffers without one: `a_context_of_another_type`
//! 9. posts two buffers in a work request of a queue of one element: `two_buffers_where_one_fits`
//! 10. posts in a function that is generic over the transport, without bounds:
//!     `a_generic_function_without_bounds`
//! 11. posts an unsignaled send on a queue pair of the default profile:
//!     `an_unsignaled_send_where_all_are_signaled`
//! 12. reads from the peer on a transport that has no reads: `a_read_on_uc`
//! 13. reads from a region that was registered for writes: `a_read_without_the_right`
//! 14. sends on UD without naming the receiver: `a_datagram_without_a_destination`
//! 15. posts a receive on a queue pair whose receives come from a shared queue:
//!     `a_receive_beside_the_shared_queue`
//! 16. passes a builder where its completion queue is needed: `a_builder_without_create`
//! 17. creates a queue pair of lists on a completion queue of buffers:
//!     `a_completion_queue_of_another_entry`
//! 18. sends on a queue pair that is only ready to receive: `a_send_before_rts`
//! 19. moves a queue pair from RESET to RTR, without INIT: `a_state_is_skipped`
//! 20. reads a buffer that the device owns: `a_buffer_after_its_post`
//! 21. keeps a completion while it polls for the next one: `a_completion_over_the_next_poll`
//! 22. posts on a queue pair that is not mutable: `a_queue_pair_without_mut`
//! 23. adds to a remote slice instead of a cell of 8 bytes: `an_atomic_on_a_slice`
//! 24. sends more bytes inline than the default profile has room for:
//!     `inline_data_longer_than_the_profile`
//! 25. uses the queue pair after `modify` consumed it: `the_queue_pair_of_before_a_transition`
//!
//! Those at run time:
//!
//! 26. creates queues that a completion queue has no room for:
//!     `a_completion_queue_that_is_too_small`
//! 27. names a port that the device does not have: `a_port_that_does_not_exist`
//! 28. names a GID index that the port does not have: `a_gid_index_that_does_not_exist`
//! 29. opens a device that does not exist: `a_device_that_does_not_exist`
//! 30. posts, and never polls: `a_queue_that_is_never_polled`
//! 31. sends more bytes inline than the profile has room for, by `inline_slice`:
//!     `inline_data_longer_than_the_profile`
//! 32. posts a buffer of another protection domain: `a_pool_of_another_domain`
//! 33. sends a datagram that is longer than the MTU: `a_datagram_longer_than_the_mtu`
//! 34. uses a completion queue of another context: `objects_of_two_contexts`
//! 35. destroys a context before its objects: `a_context_that_is_still_used`
//! 36. sends before the peer has posted a receive: `a_send_without_a_receive`
//! 37. forgets the access flags of INIT: `a_write_that_the_peers_queue_pair_does_not_allow`
//! 38. waits for a queue that was created without the channel:
//!     `a_wait_on_a_queue_without_the_channel`
//! 39. connects to a port without a listener: `cm::a_port_without_a_listener`
//! 40. forgets to accept: `cm::a_request_that_is_not_accepted`
//!
//! The rest are in the same places:
//!
//! - gives a number where its range is checked: `a_bare_number_as_a_psn`
//! - posts a buffer instead of a work request: `a_buffer_is_posted_itself`
//! - moves a completion to another thread: `a_completion_goes_to_a_thread`
//! - iterates over the `Result` of a poll: `a_poll_without_a_question_mark`
//! - posts in a function that is generic over the profile, without bounds:
//!   `a_profile_of_any_kind`
//! - lets the profile have two elements, but forgets that its entry is then a list:
//!   `a_queue_of_lists_without_its_profile`
//! - names a queue pair without its state in a struct: `a_queue_pair_type_without_its_state`
//! - reads into bytes that are not registered: `a_read_into_bytes`
//! - posts a receive on a queue pair that was just created: `a_receive_before_init`
//! - posts a receive with `post_send`: `a_receive_is_posted_as_a_send`
//! - posts a `Vec` as a receive: `a_vec_receives`
//! - writes to a remote slice without saying that it is written: `a_write_to_a_slice`
//! - sends what `take` returned, without looking whether it is a buffer:
//!   `an_option_of_a_buffer_is_sent`
//! - sends a byte string, which no device has registered: `bytes_are_sent`
//! - writes more bytes than the remote slice has: `a_write_beyond_the_remote_slice`
//! - reads more bytes than the buffer has: `a_read_into_a_buffer_that_is_too_short`
//! - copies more bytes into a buffer than it has: `a_message_longer_than_its_buffer`
//! - adds to 8 bytes that are not aligned: `an_atomic_between_two_words`
//! - receives into a buffer that is shorter than the message: `a_receive_that_is_too_short`
//! - sends to a queue pair that no longer exists: `a_peer_that_is_not_there`
//! - sends a piece that its region does not have: `a_piece_beyond_its_region`
//! - takes 32 random bits as a PSN: `a_psn_of_more_than_24_bits`
//! - drains with another completion queue: `a_drain_of_another_completion_queue`
//! - posts a buffer of another pool to a shared receive queue: `a_shared_receive_of_another_pool`
//! - binds an address that no device has: `cm::an_address_of_no_device`

use std::error::Error;
use std::fmt::Display;
use std::time::Duration;

use proverbs::loopback::{self, DatagramPair, Fabric, Pair};
use proverbs::prelude::*;

type Result = std::result::Result<(), Box<dyn Error>>;

/// Checks the whole message.
#[track_caller]
fn says(error: impl Display, text: &str) {
    assert_eq!(error.to_string(), text);
}

#[track_caller]
fn failed(cq: &mut CompletionQueue, text: &str) -> Result {
    for _ in 0..1000 {
        for completion in cq.poll()? {
            if let Outcome::Failed(failed) = completion.outcome() {
                says(failed.error, text);
                return Ok(());
            }
        }
    }
    panic!("no completion failed");
}

#[test]
fn a_completion_queue_that_is_too_small() -> Result {
    let context = Fabric::new().open_device();
    let (pd, cq) = (context.alloc_pd()?, context.create_cq::<Buf>(8)?);
    let refused = pd.create_qp::<Rc, DefaultProfile>(&cq, &cq, Depth { send: 8, recv: 8 });
    says(
        refused.unwrap_err(),
        "ibv_create_qp: the completion queue has room for 8 of the 17 entries these queues need: \
     create it with at least 17",
    );
    Ok(())
}

#[test]
fn a_port_that_does_not_exist() -> Result {
    let Pair { pd, cq, .. } = loopback::pair()?;
    let qp = pd.create_qp::<Rc, DefaultProfile>(&cq, &cq, Depth { send: 1, recv: 1 })?;
    let init = ConnectedInit { pkey_index: 0, port: 3, access: QpAccess::empty() };
    says(
        qp.modify(init).unwrap_err(),
        "ibv_modify_qp: EINVAL: Invalid argument (RESET -> INIT; port 3 does not exist: this \
     device has 1 port)",
    );
    Ok(())
}

#[test]
fn a_gid_index_that_does_not_exist() -> Result {
    let Pair { context, pd, cq, .. } = loopback::pair()?;
    let qp = pd.create_qp::<Rc, DefaultProfile>(&cq, &cq, Depth { send: 1, recv: 1 })?;
    let qp = qp.modify(ConnectedInit { pkey_index: 0, port: 1, access: QpAccess::empty() })?;
    let gid = context.query_gid(1, 1)?;
    let (qpn, psn) = (Qpn::try_from(17)?, Psn::try_from(0)?);
    let refused = qp.modify(RcRtr::new(AddressVector::roce(1, gid, 99), qpn, psn)).unwrap_err();
    says(
        refused,
        "ibv_modify_qp: EINVAL: Invalid argument (INIT -> RTR by port 1, dgid ::ffff:10.0.0.1, \
     sgid_index 99; GID index 99 does not exist: port 1 has 16)",
    );
    Ok(())
}

#[test]
fn a_device_that_does_not_exist() -> Result {
    let refused = Context::open("no such device").unwrap_err();
    // A machine without any device gets other errors: `Absence` has those messages.
    if let [first, ..] = &devices()?[..] {
        assert!(refused.to_string().contains(&first.name), "{refused}");
    } else {
        assert!(matches!(refused.kind(), ErrorKind::Absent(_)), "{refused}");
    }
    Ok(())
}

#[test]
fn a_queue_that_is_never_polled() -> Result {
    let Pair { mut a, b: _b, pool, .. } = loopback::pair()?;
    let full = loop {
        let buf = pool.take().ok_or("no buffer")?;
        if let Err(refused) = a.post_send(wr::Send::new(buf)) {
            break refused;
        }
    };
    says(
        full,
        "ibv_post_send: work request 0: queue full: posting 1 work request, room for 0 (poll \
     the completion queue to free room)",
    );
    Ok(())
}

#[test]
fn inline_data_longer_than_the_profile() -> Result {
    let Pair { mut a, .. } = loopback::pair()?;
    says(
        a.post_send(wr::Send::inline_slice(&[0; 4096])).unwrap_err(),
        "ibv_post_send: work request 0: an inline payload of 4096 bytes exceeds the queue pair's \
     max_inline of 64 (ask for more in the profile, or send from a buffer)",
    );
    Ok(())
}

#[test]
fn a_pool_of_another_domain() -> Result {
    let Pair { context, mut a, .. } = loopback::pair()?;
    let other = context.alloc_pd()?.create_pool(1, 64)?;
    let buf = other.take().ok_or("no buffer")?;
    says(
        a.post_send(wr::Send::new(buf)).unwrap_err(),
        "ibv_post_send: work request 0: a buffer belongs to another protection domain than the \
     queue (take one of a pool of the queue's domain)",
    );
    Ok(())
}

#[test]
fn a_datagram_longer_than_the_mtu() -> Result {
    let DatagramPair { mut a, pd, to_b, .. } = loopback::datagram_pair()?;
    let long = pd.create_pool(1, 1 << 16)?.take().ok_or("no buffer")?;
    says(
        a.post_send(wr::Send::new(long).to(to_b)).unwrap_err(),
        "ibv_post_send: work request 0: a UD message of 65536 bytes exceeds the active MTU of \
     4096 (send it in parts, or on RC)",
    );
    Ok(())
}

#[test]
fn a_write_beyond_the_remote_slice() -> Result {
    let Pair { mut a, pd, pool, .. } = loopback::pair()?;
    let region = pd.register::<RemoteWrite>(64)?;
    let buf = pool.take().ok_or("no buffer")?;
    says(
        a.post_send(wr::RdmaWrite::new(buf, region.remote().write())).unwrap_err(),
        "ibv_post_send: work request 0: an RDMA WRITE of 256 bytes exceeds the remote slice of 64 \
     (write fewer, or have the peer offer a longer slice)",
    );
    Ok(())
}

#[test]
fn a_read_into_a_buffer_that_is_too_short() -> Result {
    let Pair { mut a, pd, pool, .. } = loopback::pair()?;
    let region = pd.register::<RemoteRead>(1024)?;
    let buf = pool.take().ok_or("no buffer")?;
    says(
        a.post_send(wr::RdmaRead::new(buf, region.remote().read())).unwrap_err(),
        "ibv_post_send: work request 0: an RDMA READ of a slice of 1024 bytes exceeds the 256 of \
     its buffers (read a part of the slice, or into more buffers)",
    );
    Ok(())
}

#[test]
fn objects_of_two_contexts() -> Result {
    let (one, other) = (Fabric::new().open_device(), Fabric::new().open_device());
    let (pd, cq) = (one.alloc_pd()?, other.create_cq::<Buf>(8)?);
    let refused = pd.create_qp::<Rc, DefaultProfile>(&cq, &cq, Depth { send: 1, recv: 1 });
    says(
        refused.unwrap_err(),
        "ibv_create_qp: the completion queue and the queue pair belong to different contexts: \
     create both from one",
    );
    Ok(())
}

#[test]
fn a_message_longer_than_its_buffer() -> Result {
    let Pair { pool, .. } = loopback::pair()?;
    says(
        pool.take().ok_or("no buffer")?.copy_from(&[0; 257]).unwrap_err(),
        "257 bytes exceed the buffer's capacity of 256",
    );
    Ok(())
}

#[test]
fn an_atomic_between_two_words() -> Result {
    let Pair { pd, .. } = loopback::pair()?;
    let region = pd.register::<RemoteAll>(64)?;
    says(
        region.remote().atomic(4).unwrap_err(),
        "offset 4 is not 8-byte aligned: an atomic needs an address that is a multiple of 8",
    );
    Ok(())
}

#[test]
fn a_context_that_is_still_used() -> Result {
    let Pair { context, pd: _pd, .. } = loopback::pair()?;
    says(
        context.destroy().unwrap_err(),
        "ibv_close_device: EBUSY: Device or resource busy (objects of it exist: drop them first)",
    );
    Ok(())
}

#[test]
fn a_send_without_a_receive() -> Result {
    let Pair { mut a, b: _b, mut cq, .. } = loopback::pair()?;
    a.post_send(wr::Send::inline(b"hello"))?;
    failed(
        &mut cq,
        "QP 0x000014: IBV_WC_RNR_RETRY_EXC_ERR: RNR retries exceeded: the peer has no receive \
     posted",
    )
}

#[test]
fn a_receive_that_is_too_short() -> Result {
    let Pair { mut a, mut b, mut cq, pd, pool, .. } = loopback::pair()?;
    let short = pd.create_pool(1, 8)?.take().ok_or("no buffer")?;
    b.post_recv(wr::Recv::new(short))?;
    a.post_send(wr::Send::new(pool.take().ok_or("no buffer")?))?;
    failed(
        &mut cq,
        "QP 0x000015: IBV_WC_LOC_LEN_ERR: local length error: the message is longer than the \
     buffers of its receive, or than the port carries",
    )
}

#[test]
fn a_write_that_the_peers_queue_pair_does_not_allow() -> Result {
    let Pair { context, pd, mut cq, .. } = loopback::pair()?;
    let depth = Depth { send: 1, recv: 1 };
    let (a, b) = (pd.create_qp(&cq, &cq, depth)?, pd.create_qp(&cq, &cq, depth)?);
    let (to_a, to_b) = (Qpn::try_from(a.qp_num())?, Qpn::try_from(b.qp_num())?);
    let index = context.roce_v2_gid(1)?.index();
    let address = AddressVector::roce(1, context.query_gid(1, index)?, index);
    let connect = |qp: QueuePair<Rc, Reset>, to| -> std::result::Result<_, proverbs::Error> {
        let qp = qp.modify(ConnectedInit { pkey_index: 0, port: 1, access: QpAccess::empty() })?;
        let qp = qp.modify(RcRtr::new(address, to, Psn::try_from(0)?))?;
        Ok(qp.modify(RcRts::new(Psn::try_from(0)?, ReadDepth::ONE))?)
    };
    let (mut a, _b) = (connect(a, to_b)?, connect(b, to_a)?);
    let region = pd.register::<RemoteWrite>(8)?;
    a.post_send(wr::RdmaWrite::inline(b"8 bytes!", region.remote().write()))?;
    failed(
        &mut cq,
        "QP 0x000016: IBV_WC_REM_INV_REQ_ERR: remote invalid request: the message is longer than \
     the peer's receive, or the peer's queue pair does not allow the operation (`access` of \
     its INIT). Of a receive: the message invalidates a key that is not valid here",
    )
}

#[test]
fn a_peer_that_is_not_there() -> Result {
    let Pair { mut a, b, mut cq, .. } = loopback::pair()?;
    drop(b);
    a.post_send(wr::Send::inline(b"hello"))?;
    failed(
        &mut cq,
        "QP 0x000014: IBV_WC_RETRY_EXC_ERR: transport retries exceeded: the peer does not answer",
    )
}

#[test]
fn a_piece_beyond_its_region() -> Result {
    let Pair { pd, .. } = loopback::pair()?;
    says(
        pd.register::<LocalWrite>(64)?.piece(60, 8).unwrap_err(),
        "8 bytes at offset 60 exceed the region of 64 bytes",
    );
    Ok(())
}

#[test]
fn a_psn_of_more_than_24_bits() {
    says(
        proverbs::Error::from(Psn::try_from(1 << 24).unwrap_err()),
        "attribute: PSN 16777216 exceeds 16777215",
    );
}

#[test]
fn a_wait_on_a_queue_without_the_channel() -> Result {
    let Pair { context, mut cq, .. } = loopback::pair()?;
    let mut channel = context.create_comp_channel()?;
    says(
        channel.wait_timeout(&mut cq, Duration::ZERO).unwrap_err(),
        "ibv_get_cq_event: EINVAL: Invalid argument (the completion queue is not on this channel: \
     create it with `context.cq(cqe).channel(&channel)`)",
    );
    Ok(())
}

#[test]
fn a_drain_of_another_completion_queue() -> Result {
    let Pair { context, a, b: _b, .. } = loopback::pair()?;
    let mut other = context.create_cq(8)?;
    says(
        a.to_error()?.drain(&mut other, |_| ()).unwrap_err(),
        "drain: EINVAL: Invalid argument (the queue pair does not complete into this completion \
     queue)",
    );
    Ok(())
}

#[test]
fn a_shared_receive_of_another_pool() -> Result {
    let Pair { pd, pool, .. } = loopback::pair()?;
    let mut srq: SharedReceiveQueue<Rc> = pd.create_srq(&pool)?;
    let other = pd.create_pool(1, 64)?.take().ok_or("no buffer")?;
    says(
        srq.post_srq_recv(wr::Recv::new(other)).unwrap_err(),
        "ibv_post_srq_recv: work request 0: a buffer belongs to a pool that the shared receive \
     queue does not use (take one of the pool that the queue was created with)",
    );
    Ok(())
}

#[cfg(feature = "cm")]
mod cm {
    use super::*;
    use proverbs::cm::{CmId, ConnParam, RouteResolved, Tcp};

    const TIME: Duration = Duration::from_millis(200);

    fn routed(
        fabric: &Fabric,
        port: u16,
    ) -> std::result::Result<CmId<Tcp, RouteResolved>, Box<dyn Error>> {
        let id = CmId::<Tcp, _>::on(fabric)?;
        let to = std::net::SocketAddr::from(([10, 0, 0, 1], port));
        Ok(id.resolve_addr(to, TIME)?.resolve_route(TIME)?)
    }

    fn connect(fabric: &Fabric, port: u16) -> std::result::Result<String, Box<dyn Error>> {
        let id = routed(fabric, port)?;
        let (pd, cq) = (id.pd()?, id.context()?.create_cq(4)?);
        let depth = Depth { send: 1, recv: 1 };
        let qp = id.create_qp::<DefaultProfile>(&pd, &cq, &cq, depth)?;
        Ok(id.connect(qp, &ConnParam::default(), TIME).map(drop).unwrap_err().to_string())
    }

    #[test]
    fn a_port_without_a_listener() -> Result {
        let fabric = Fabric::new();
        let _device = fabric.open_device();
        assert_eq!(
            connect(&fabric, 7471)?,
            "rdma_connect: rejected with reason 8 (no program listens there), 148 bytes of private \
         data"
        );
        Ok(())
    }

    #[test]
    fn a_request_that_is_not_accepted() -> Result {
        let fabric = Fabric::new();
        let _device = fabric.open_device();
        let id = CmId::<Tcp, _>::on(&fabric)?.bind_addr("10.0.0.1:7471".parse()?)?;
        let _listener = id.listen(1)?;
        assert_eq!(
            connect(&fabric, 7471)?,
            "rdma_connect: no answer within 200ms: the peer must `accept` or `reject` \
         the request"
        );
        Ok(())
    }

    #[test]
    fn an_address_of_no_device() -> Result {
        let fabric = Fabric::new();
        let _device = fabric.open_device();
        let id = CmId::<Tcp, _>::on(&fabric)?;
        says(
            id.bind_addr("10.0.0.9:7".parse()?).unwrap_err(),
            "rdma_bind_addr: EADDRNOTAVAIL: Cannot assign requested address (10.0.0.9:7: no \
         network interface of this machine has this address, or another id has the port)",
        );
        Ok(())
    }
}

/// The messages of the programs in `ui-tests/mistakes` are one error each, and fit a terminal.
#[test]
fn each_is_one_short_error() -> Result {
    // rustc's own derivation is longer: it shows where a macro implements a trait, each type around
    // one that is not `Send`, or each trait on the way to a limit.
    let longer = [
        "a_state_is_skipped",
        "a_lane_goes_to_a_thread",
        "a_completion_goes_to_a_thread",
        "a_datagram_without_a_destination",
        "inline_data_longer_than_the_profile",
    ];
    let list = include_str!("mistakes.rs");
    let mut count = 0;
    for entry in std::fs::read_dir("ui-tests/mistakes")? {
        let path = entry?.path();
        if path.extension().is_none_or(|kind| kind != "stderr") {
            continue;
        }
        count += 1;
        let text = std::fs::read_to_string(&path)?;
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        assert!(
            list.contains(&format!(": `{name}`")) || list.contains(&format!("`{name}`\n")),
            "{name}"
        );
        let errors = text.lines().filter(|line| line.starts_with("error")).count();
        let most = if longer.contains(&&*name) { 32 } else { 25 };
        assert_eq!(errors, 1, "{name}");
        assert!(text.lines().count() <= most, "{name}: {} lines", text.lines().count());
    }
    assert!(count >= 39, "{count} programs");
    Ok(())
}
