//! XRC: an initiator, a target, and shared receive queues named by number.

use std::fs::File;
use std::os::fd::AsFd;

use proverbs::bounded::{RnrRetries, RnrRetry, SrqNum};
use proverbs::completion::{Direction, WcStatus};
use proverbs::device::{Can, DeviceEvent, QpEvent};
use proverbs::ext::extended_posting::ExtendedPosting;
use proverbs::ext::xrc::{
    XrcDomain, XrcRtr, XrcRts, XrcTarget, XrcTargetRtr, XrcTargetRts, XrcdFile,
};
use proverbs::prelude::*;
use proverbs::qp::Max;
use proverbs::state::QpState;

use crate::endings::{WAYS, Way, end};
use crate::support::*;

profile! { Initiating { receive: NoRq } }
profile! { InSessions { receive: NoRq, posting: ExtendedPosting } }
profile! { Framing { receive: NoRq, max_send_sge: 2 } }
profile! { FramingInSessions { receive: NoRq, max_send_sge: 2, posting: ExtendedPosting } }
profile! { Selecting { receive: NoRq, signaling: Selective } }
profile! { Modest { receive: NoRq, initiator: NoReads } }

/// The proof, if the device has XRC.
fn can(dev: &Device) -> Option<Can<Xrc>> {
    let can = dev.ctx.abilities().unwrap().can::<Xrc>();
    if dev.kind == Kind::Loopback {
        let lacks = dev.is_iwarp() || Device::personality() == proverbs::loopback::Personality::Rxe;
        assert_eq!(can.is_none(), lacks);
    }
    if can.is_none() {
        println!("R26.5: this device has no XRC");
    }
    can
}

/// An XRC domain with two shared receive queues of different protection domains, and a connection.
struct Host<P: Profile> {
    dev: Device,
    can: Can<Xrc>,
    domain: XrcDomain,
    target: Option<XrcTarget<Rtr>>,
    initiator: QueuePair<Xrc, Rts, P>,
    sends: CompletionQueue,
    pd: ProtectionDomain,
    one: Served,
    two: Served,
}

struct Served {
    srq: SharedReceiveQueue<Xrc>,
    pool: Pool,
    cq: CompletionQueue,
    pd: ProtectionDomain,
}

fn served(dev: &Device, domain: &XrcDomain) -> Served {
    let pd = dev.ctx.alloc_pd().unwrap();
    let pool = pd.create_pool(4, 64).unwrap();
    let cq = dev.ctx.create_cq(8).unwrap();
    let srq = domain.create_srq(&pd, &pool, &cq).unwrap();
    assert_eq!(cq.capacity() - cq.unbooked(), 4);
    Served { srq, pool, cq, pd }
}

impl Served {
    fn post(&mut self) {
        self.srq.post_srq_recv(wr::Recv::new(poisoned(&self.pool))).unwrap();
    }

    /// The received message, and the target that it came through.
    fn received(&mut self, dev: &Device) -> (Vec<u8>, u32) {
        let received = poll(dev, &mut self.cq, 1).remove(0).received();
        (received.data().to_vec(), received.qp_num)
    }
}

fn rts_with<P: Profile>(depth: <P::Initiator as proverbs::qp::Initiator>::Depth) -> XrcRts<P> {
    let rnr_retry = RnrRetry::Times(RnrRetries::try_from(1).unwrap());
    XrcRts { rnr_retry, ..XrcRts::new(Psn::try_from(3).unwrap(), depth) }
}

/// Connects an initiator and a target, both in RESET.
fn connect<P: Profile>(
    dev: &Device,
    initiator: QueuePair<Xrc, Reset, P>,
    target: XrcTarget<Reset>,
    rts: XrcRts<P>,
) -> (QueuePair<Xrc, Rts, P>, XrcTarget<Rtr>) {
    let (from, to) = (Qpn::try_from(initiator.qp_num()), Qpn::try_from(target.qp_num()));
    let init = ConnectedInit { pkey_index: 0, port: 1, access: QpAccess::all() };
    let [psn, back] = [3, 4].map(|psn| Psn::try_from(psn).unwrap());
    let target = target.modify(init).unwrap();
    let rtr = XrcTargetRtr::new(dev.vector(), from.unwrap(), psn);
    let target = target.modify(rtr).unwrap();
    let initiator = initiator.modify(init).unwrap();
    let initiator = initiator.modify(XrcRtr::new(dev.vector(), to.unwrap(), back)).unwrap();
    (initiator.modify(rts).unwrap(), target)
}

fn host<P>() -> Option<Host<P>>
where
    P: Profile<
            Entry = Buf,
            Threads = proverbs::qp::AnyThread,
            Receive = NoRq,
            Initiator = proverbs::qp::Reads,
        >,
{
    let dev = Device::open();
    let can = can(&dev)?;
    let domain = dev.ctx.open_xrcd(&can, XrcdFile::Private).unwrap();
    let (one, two) = (served(&dev, &domain), served(&dev, &domain));
    let pd = dev.ctx.alloc_pd().unwrap();
    let sends = dev.ctx.create_cq(16).unwrap();
    let initiator = pd.create_xrc_initiator::<P>(&can, &sends, 8).unwrap();
    assert_eq!(sends.capacity() - sends.unbooked(), 9);
    let target = domain.create_target().unwrap();
    let (initiator, target) = connect(&dev, initiator, target, rts_with(ReadDepth::ONE));
    Some(Host { dev, can, domain, target: Some(target), initiator, sends, pd, one, two })
}

/// One connection reaches both, by number; each message completes on the completion queue of its
/// receive queue.
macro_rules! messages_go_where_they_name {
    ($profile:ty) => {
        let Some(mut h) = host::<$profile>() else { return };
        let through = h.target.as_ref().unwrap().qp_num();
        let (first, second) = (h.one.srq.number(), h.two.srq.number());
        assert_ne!(first, second);
        h.one.post();
        h.two.post();
        h.two.post();
        let pool = h.pd.create_pool(2, 64).unwrap();
        h.initiator.post_send(wr::Send::inline(b"two").to_srq(second)).unwrap();
        h.initiator.post_send(wr::Send::new(filled(&pool, b"one")).to_srq(first)).unwrap();
        let of_imm = wr::SendWithImm::inline(b"imm", 9).solicited().to_srq(second).fence();
        h.initiator.post_send(of_imm).unwrap();
        for done in poll(&h.dev, &mut h.sends, 3) {
            done.sent();
        }
        assert_eq!(h.two.received(&h.dev), (b"two".to_vec(), through));
        assert_eq!(h.one.received(&h.dev), (b"one".to_vec(), through));
        let last = poll(&h.dev, &mut h.two.cq, 1).remove(0).received();
        assert_eq!((last.data(), last.imm_data), (&b"imm"[..], Some(9)));
        assert_eq!((h.one.srq.recvs_outstanding(), h.two.srq.recvs_outstanding()), (0, 0));
    };
}

/// Proves R26.1.
#[test]
fn messages_reach_the_queue_that_they_name() {
    messages_go_where_they_name!(Initiating);
}

/// A session on XRC sets the number of the shared receive queue for each message.
/// Proves R26.1.
#[test]
fn session_messages_reach_the_queue_that_they_name() {
    messages_go_where_they_name!(InSessions);
}

/// A list is posted in one session, and each work request has its own number.
#[test]
fn each_request_of_a_list_names_its_queue() {
    let Some(mut h) = host::<InSessions>() else { return };
    let (first, second) = (h.one.srq.number(), h.two.srq.number());
    h.one.post();
    h.two.post();
    post_send!(
        h.initiator,
        [wr::Send::inline(b"1").to_srq(first), wr::Send::inline(b"2").to_srq(second),]
    )
    .unwrap();
    assert_eq!(poll(&h.dev, &mut h.sends, 2).len(), 2);
    assert_eq!(
        (h.one.received(&h.dev).0, h.two.received(&h.dev).0),
        (b"1".to_vec(), b"2".to_vec())
    );
}

/// Inline data of several slices reaches the queue that it names, too.
#[test]
fn slices_reach_the_queue_that_they_name() {
    macro_rules! arrive {
        ($profile:ty) => {
            let Some(mut h) = host::<$profile>() else { return };
            let (first, second) = (h.one.srq.number(), h.two.srq.number());
            let region = h.two.pd.register::<RemoteWrite>(64).unwrap();
            h.one.post();
            h.two.post();
            let one = wr::Send::inline_list([b"for ", b"one"]);
            h.initiator.post_send(one.to_srq(first)).unwrap();
            let write = wr::RdmaWrite::inline_list([b"wri", b"tten"], region.remote().write());
            let two = wr::SendWithImm::inline_list([b"", b"two"], 3);
            post_send!(h.initiator, [write.to_srq(second), two.to_srq(second)]).unwrap();
            assert_eq!(poll(&h.dev, &mut h.sends, 3).len(), 3);
            assert_eq!(h.one.received(&h.dev).0, b"for one");
            assert_eq!(h.two.received(&h.dev).0, b"two");
            let mut there = [0; 7];
            region.read_at(0, &mut there).unwrap();
            assert_eq!(&there, b"written");
        };
    }
    arrive!(Framing);
    arrive!(FramingInSessions);
}

/// The memory that a WRITE, a READ or an atomic names must be in the protection domain of the
/// shared receive queue that the work request names.
/// Proves R26.1.
#[test]
fn memory_is_in_the_domain_of_the_named_queue() {
    let Some(mut h) = host::<Initiating>() else { return };
    let (first, second) = (h.one.srq.number(), h.two.srq.number());
    let region = h.one.pd.register::<RemoteAll>(64).unwrap();
    let slice = region.remote();
    let pool = h.pd.create_pool(4, 64).unwrap();
    let seven = 7u64.to_ne_bytes();
    let word = wr::RdmaWrite::inline(&seven, slice.write());
    h.initiator.post_send(word.to_srq(first)).unwrap();
    let add = wr::FetchAndAdd::new(poisoned(&pool), slice.atomic(0).unwrap(), 3);
    h.initiator.post_send(add.to_srq(first)).unwrap();
    let read = wr::RdmaRead::new(poisoned(&pool), slice.slice(0, 8).unwrap().read());
    h.initiator.post_send(read.to_srq(first)).unwrap();
    h.one.post();
    let notice = wr::RdmaWriteWithImm::inline(b"!", slice.slice(8, 8).unwrap().write(), 5);
    h.initiator.post_send(notice.to_srq(first)).unwrap();
    let mut done = poll(&h.dev, &mut h.sends, 4).into_iter().map(Done::sent);
    assert!(done.next().unwrap().entry.is_none());
    let before = done.next().unwrap().entry.unwrap();
    assert_eq!(before[..8], 7u64.to_ne_bytes());
    let now = done.next().unwrap().entry.unwrap();
    assert_eq!(now[..8], 10u64.to_ne_bytes());
    let noticed = poll(&h.dev, &mut h.one.cq, 1).remove(0).received();
    assert_eq!(noticed.imm_data, Some(5));

    // With the other queue's number, the key is invalid.
    let word = wr::RdmaWrite::inline(b"8 bytes!", slice.write());
    h.initiator.post_send(word.to_srq(second)).unwrap();
    let failed = poll(&h.dev, &mut h.sends, 1).remove(0);
    failed.failed(Direction::Send, WcStatus::RemAccess);
    let mut there = [0; 8];
    region.read_at(0, &mut there).unwrap();
    assert_eq!(there, 10u64.to_ne_bytes());
}

/// The number of a queue in another domain, of a queue without XRC, and a number without a queue
/// are refused.
/// Proves R26.4.
#[test]
fn an_invalid_queue_number_is_refused() {
    for which in 0..4 {
        let Some(mut h) = host::<Initiating>() else { return };
        let elsewhere = h.dev.ctx.open_xrcd(&h.can, XrcdFile::Private).unwrap();
        let mut other = served(&h.dev, &elsewhere);
        other.post();
        let gone = served(&h.dev, &h.domain);
        let wrong = match which {
            0 => other.srq.number(),
            1 => gone.srq.number(),
            2 => SrqNum::try_from(0xff_fffe).unwrap(),
            // The number of a queue pair.
            _ => SrqNum::try_from(h.initiator.qp_num()).unwrap(),
        };
        gone.srq.destroy().unwrap();
        let mut events = h.dev.ctx.events().unwrap();
        if which == 2 {
            let region = h.one.pd.register::<RemoteWrite>(8).unwrap();
            let write = wr::RdmaWrite::inline(b"8 bytes!", region.remote().write());
            h.initiator.post_send(write.to_srq(wrong)).unwrap();
        } else {
            h.initiator.post_send(wr::Send::inline(b"lost").to_srq(wrong)).unwrap();
        }
        let failed = poll(&h.dev, &mut h.sends, 1).remove(0);
        failed.failed(Direction::Send, WcStatus::RemInvReq);
        let target = h.target.take().unwrap();
        assert_eq!(target.query().unwrap().state, Some(QpState::Err));
        assert_eq!(h.initiator.query().unwrap().state, Some(QpState::Err));
        let number = target.qp_num();
        // The message has arrived, and is refused.
        for event in [QpEvent::CommunicationEstablished, QpEvent::RequestError] {
            // Miri cannot wait on a descriptor.
            if h.dev.kind == Kind::Loopback && !cfg!(miri) {
                let told = events.wait_timeout(long()).unwrap();
                assert_eq!(told, Some(DeviceEvent::Qp { qp_num: number, event }));
            }
        }
        assert_eq!(poll_empty(&mut other.cq), 0);
        assert_eq!(other.srq.recvs_outstanding(), 1);

        // A new connection between the same two.
        let target = target.reset().unwrap();
        let initiator = h.initiator.reset().unwrap();
        let (mut initiator, target) = connect(&h.dev, initiator, target, rts_with(ReadDepth::ONE));
        h.one.post();
        initiator.post_send(wr::Send::inline(b"again").to_srq(h.one.srq.number())).unwrap();
        poll(&h.dev, &mut h.sends, 1).remove(0).sent();
        assert_eq!(h.one.received(&h.dev), (b"again".to_vec(), target.qp_num()));
    }
}

/// If a queue has no receives, the initiator retries and then fails.
#[test]
fn a_queue_without_receives_is_not_ready() {
    let Some(mut h) = host::<Initiating>() else { return };
    h.two.post();
    h.initiator.post_send(wr::Send::inline(b"early").to_srq(h.one.srq.number())).unwrap();
    let failed = poll(&h.dev, &mut h.sends, 1).remove(0);
    failed.failed(Direction::Send, WcStatus::RnrRetryExc);
    assert_eq!(h.two.srq.recvs_outstanding(), 1);
}

/// Objects end in any order, and receives outlive targets.
/// Proves R26.3.
#[test]
fn receives_outlive_targets() {
    let Some(mut h) = host::<Initiating>() else { return };
    h.one.post();
    let target = h.target.take().unwrap();
    let target = target.modify(XrcTargetRts::new(Psn::try_from(4).unwrap())).unwrap();
    target.to_error().unwrap().destroy().unwrap();
    assert_eq!(h.one.srq.recvs_outstanding(), 1);
    assert_eq!(poll_empty(&mut h.one.cq), 0);

    let target = h.domain.create_target().unwrap();
    let initiator = h.initiator.reset().unwrap();
    let (mut initiator, _target) = connect(&h.dev, initiator, target, rts_with(ReadDepth::ONE));
    initiator.post_send(wr::Send::inline(b"late").to_srq(h.one.srq.number())).unwrap();
    poll(&h.dev, &mut h.sends, 1).remove(0).sent();
    assert_eq!(h.one.received(&h.dev).0, b"late");
}

/// Neither end leaves a buffer behind, and received messages are in the completion queue.
#[test]
fn both_ends_leave_no_buffer_behind() {
    for way in WAYS {
        let Some(mut h) = host::<Initiating>() else { return };
        let pool = h.pd.create_pool(2, 64).unwrap();
        h.one.post();
        h.one.post();
        let to_one = |i| wr::Send::new(filled(&pool, &[i])).to_srq(h.one.srq.number());
        h.initiator.post_send(to_one(0)).unwrap();
        poll(&h.dev, &mut h.sends, 1);
        let to_two = wr::Send::new(filled(&pool, b"no receives")).to_srq(h.two.srq.number());
        h.initiator.post_send(to_two).unwrap();
        let reset = end(way, h.initiator, &mut [&mut h.sends]);
        poll_empty(&mut h.sends);
        assert_eq!(pool.available(), 2, "{way:?}");
        let target = h.target.take().unwrap();
        let target = match way {
            Way::Drop | Way::DestroyAny => None,
            Way::Reset | Way::DrainAndReset => Some(target.reset().unwrap()),
            Way::Destroy | Way::DrainAndDestroy => target.destroy().map(|()| None).unwrap(),
        };
        assert_eq!(poll_empty(&mut h.one.cq), 1, "{way:?}");
        assert_eq!((h.one.pool.available(), h.one.srq.recvs_outstanding()), (3, 1), "{way:?}");
        drop((reset, target));
    }
}

/// Proves R26.6.
#[test]
fn domains_and_queues_end_after_their_users() {
    let Some(h) = host::<Initiating>() else { return };
    let Host { dev, domain, target, mut one, two, .. } = h;
    let busy = |error: &proverbs::Error| assert_eq!(error.errno(), Some(libc::EBUSY));
    let refused = domain.close().unwrap_err();
    busy(&refused.error);
    let domain = refused.into_object();
    drop(target);
    // Completions stay on the completion queue of a shared receive queue.
    one.post();
    let refused = one.cq.destroy().unwrap_err();
    busy(&refused.error);
    let cq = refused.into_object();
    let refused = domain.close().unwrap_err();
    busy(&refused.error);
    let domain = refused.into_object();
    drop(two);
    assert_eq!(one.pool.available(), 3);
    one.srq.destroy().unwrap();
    let mut cq = cq;
    cq.poll().unwrap().for_each(drop);
    cq.poll().unwrap().for_each(drop);
    assert_eq!(one.pool.available(), 4);
    domain.close().unwrap();
    cq.destroy().unwrap();
    drop(dev);
}

/// Dropping a shared receive queue with unpolled completions returns all its buffers.
/// Proves R26.6.
#[test]
fn the_buffers_of_a_dropped_queue_return() {
    let Some(mut h) = host::<Initiating>() else { return };
    h.one.post();
    h.one.post();
    h.initiator.post_send(wr::Send::inline(b"unseen").to_srq(h.one.srq.number())).unwrap();
    poll(&h.dev, &mut h.sends, 1).remove(0).sent();
    let Served { srq, pool, mut cq, .. } = h.one;
    drop(srq);
    for _ in 0..4 {
        cq.poll().unwrap().for_each(drop);
    }
    assert_eq!((pool.available(), cq.unbooked()), (4, cq.capacity()));
}

/// A file has one domain, however often it is opened.
#[test]
#[cfg_attr(miri, ignore = "Miri opens no files")]
fn a_file_names_a_domain() {
    let Some(h) = host::<Initiating>() else { return };
    let file = File::open("/dev/null").unwrap();
    let ctx = &h.dev.ctx;
    let existing = || ctx.open_xrcd(&h.can, XrcdFile::Existing(file.as_fd()));
    assert_eq!(existing().unwrap_err().errno(), Some(libc::EAGAIN));
    let first = ctx.open_xrcd(&h.can, XrcdFile::New(file.as_fd())).unwrap();
    let second = existing().unwrap();
    let again = ctx.open_xrcd(&h.can, XrcdFile::New(file.as_fd()));
    assert_eq!(again.unwrap_err().errno(), Some(libc::EINVAL));

    // One program's target reaches another program's queue.
    let mut theirs = served(&h.dev, &second);
    theirs.post();
    let target = first.create_target().unwrap();
    let initiator = h.initiator.reset().unwrap();
    let (mut initiator, _target) = connect(&h.dev, initiator, target, rts_with(ReadDepth::ONE));
    initiator.post_send(wr::Send::inline(b"across").to_srq(theirs.srq.number())).unwrap();
    let mut sends = h.sends;
    poll(&h.dev, &mut sends, 1).remove(0).sent();
    assert_eq!(theirs.received(&h.dev).0, b"across");
}

/// An initiator drains like any queue pair, and its ring works with a later completion.
#[test]
fn an_initiator_drains() {
    fails_on!(NoRings, "", !Device::open().is_iwarp());
    let Some(mut h) = host::<Selecting>() else { return };
    let pool = h.pd.create_pool(4, 64).unwrap();
    h.one.post();
    let number = h.one.srq.number();
    let first = wr::Send::new(filled(&pool, b"a")).to_srq(number);
    let _debt = h.initiator.post_send_unsignaled(first).unwrap();
    let region = h.one.pd.register::<RemoteWrite>(64).unwrap();
    let at = region.remote().write();
    let second = wr::RdmaWrite::new(filled(&pool, b"b"), at).to_srq(number);
    h.initiator.post_send(second).unwrap();
    let released = loop {
        if let Some(completion) = h.sends.poll_one().unwrap() {
            let done = h.initiator.complete(completion).unwrap();
            done.status.unwrap();
            break done.released.count();
        }
    };
    assert_eq!(released, 2);
    let mut initiator = h.initiator.to_error().unwrap();
    let third = wr::Send::new(filled(&pool, b"c")).to_srq(number);
    initiator.post_send(third).unwrap();
    let mut home = 0;
    initiator
        .drain(&mut h.sends, |found| {
            if let proverbs::qp::Drained::Entry(_) = found {
                home += 1;
            }
        })
        .unwrap();
    assert_eq!(home, 1);
}

/// A completion queue with a shared budget has an entry for each buffer.
/// Proves R9.9.
#[test]
fn a_queue_reserves_entries_of_a_shared_budget() {
    let Some(h) = host::<Initiating>() else { return };
    let mut cq: CompletionQueue = h.dev.ctx.cq(4).shared_budget().create().unwrap();
    let (pd, asked) = (&h.one.pd, cq.capacity());
    let pool = pd.create_pool(asked as usize, 64).unwrap();
    let srq: SharedReceiveQueue<Xrc> = h.domain.create_srq(pd, &pool, &cq).unwrap();
    assert_eq!(cq.unbooked(), 0);
    let error = h.domain.create_srq::<Buf, Max<1>, (), _>(pd, &pool, &cq).unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::CqTooSmall { asked, free: 0, enough: 2 * asked });
    drop(srq);
    poll_empty(&mut cq);
    assert_eq!(cq.unbooked(), asked);
    cq.destroy().unwrap();
}

/// Objects of other devices are rejected before anything is created (R12.1).
/// Proves R26.5.
#[test]
fn objects_of_another_context_are_refused() {
    let Some(h) = host::<Initiating>() else { return };
    let other = Device::open();
    let theirs = other.ctx.abilities().unwrap().can::<Xrc>().unwrap();
    let is_mismatch = |error: proverbs::Error| {
        assert!(matches!(error.kind(), ErrorKind::ContextMismatch { .. }), "{error}");
    };
    is_mismatch(h.dev.ctx.open_xrcd(&theirs, XrcdFile::Private).unwrap_err());
    let made = h.pd.create_xrc_initiator::<Modest>(&theirs, &h.sends, 1);
    is_mismatch(made.unwrap_err());
    let domain = other.ctx.open_xrcd(&theirs, XrcdFile::Private).unwrap();
    let cq = other.ctx.create_cq::<Buf>(8).unwrap();
    let (here, pool) = (&h.domain, &h.one.pool);
    let pd = &h.one.pd;
    is_mismatch(domain.create_srq::<Buf, Max<1>, (), _>(pd, pool, &h.sends).unwrap_err());
    is_mismatch(here.create_srq::<Buf, Max<1>, (), _>(pd, pool, &cq).unwrap_err());
    let small = h.dev.ctx.create_cq::<Buf>(1).unwrap();
    let asked = pool.available() as u32;
    drop(h.one.srq);
    let error = here.create_srq::<Buf, Max<1>, (), _>(pd, pool, &small).unwrap_err();
    assert_eq!(error.verb(), "ibv_create_srq_ex");
    let free = small.capacity();
    if free < asked {
        assert_eq!(*error.kind(), ErrorKind::CqTooSmall { asked, free, enough: asked });
    }
    let error = here.create_srq::<Buf, Max<1>, (), _>(&h.pd, pool, &h.sends).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::PdMismatch { .. }), "{error}");
}

/// An initiator without reads.
#[test]
fn an_initiator_without_reads() {
    let dev = Device::open();
    let Some(can) = can(&dev) else { return };
    let domain = dev.ctx.open_xrcd(&can, XrcdFile::Private).unwrap();
    let mut one = served(&dev, &domain);
    one.post();
    let mut sends = dev.ctx.create_cq(4).unwrap();
    let initiator = one.pd.create_xrc_initiator::<Modest>(&can, &sends, 2).unwrap();
    let target = domain.create_target().unwrap();
    let (mut initiator, target) = connect(&dev, initiator, target, rts_with(proverbs::qp::NoDepth));
    initiator.post_send(wr::Send::inline(b"modest").to_srq(one.srq.number())).unwrap();
    poll(&dev, &mut sends, 1).remove(0).sent();
    assert_eq!(one.received(&dev), (b"modest".to_vec(), target.qp_num()));
    let told = target.query().unwrap();
    assert_eq!((told.state, told.dest_qpn), (Some(QpState::Rtr), initiator.qp_num()));
    assert_eq!(format!("{target:?}"), format!("XrcTarget({:#08x}, Rtr)", target.qp_num()));
}
