//! Paths of InfiniBand: on the device under test if it is InfiniBand, and otherwise on a loopback
//! device whose ports have four LIDs.

use proverbs::ErrorKind;
use proverbs::bounded::{RetryCount, Timeout};
use proverbs::completion::Direction;
use proverbs::device::{DeviceEvent, DeviceEvents, LinkLayer, Protocol, QpEvent};
use proverbs::ext::extended_polling::{CompletionQueueEx, DlidPathBits};
use proverbs::ext::path_migration::{AlternatePath, Migration, MigrationState};
use proverbs::loopback::{Fabric, Fault, Personality, Script, World};
use proverbs::prelude::*;
use proverbs::qp::{RcReturn, RcRtsOptional, RcSqd, RtrOptional, UcReturn, UcRtsOptional, UcSqd};
use proverbs::state::{QpState, State};
use proverbs::transport::Transport;

use crate::support::*;

fn infiniband() -> Device {
    let dev = Device::open();
    match dev.ctx.protocol(1).unwrap() {
        Protocol::InfiniBand if dev.fabric.is_none() => dev,
        _ => {
            let world = World::infiniband().lid_mask(2);
            Device::loopback(&Fabric::with(world.personality(Device::personality())))
        }
    }
}

/// The path from the port's LID with bits `from` to its LID with bits `to`.
fn path(dev: &Device, from: u8, to: u8) -> AddressVector {
    let lid = dev.ctx.query_port(1).unwrap().lid;
    let dlid = lid + u16::from(to);
    AddressVector { src_path_bits: from, ..AddressVector::infiniband(1, dlid) }
}

type Ends = (QueuePair<Rc, Init>, QueuePair<Rc, Init>);

/// Two queue pairs in INIT, and their completion queues.
fn ends(dev: &Device) -> (Ends, [CompletionQueue; 2], ProtectionDomain) {
    let pd = dev.ctx.alloc_pd().unwrap();
    let queues = [0; 2].map(|_| dev.ctx.create_cq(20).unwrap());
    let wish = Wish::new();
    let [a, b] = [0, 1].map(|i| {
        let qp = pd.create_qp::<Rc, DefaultProfile>(&queues[i], &queues[i], wish.depth).unwrap();
        Rc::init(qp, &wish)
    });
    ((a, b), queues, pd)
}

fn rtr(address: AddressVector, peer: u32) -> RcRtr {
    RcRtr::new(address, Qpn::new(peer).unwrap(), Psn::new(5).unwrap())
}

fn rts() -> RcRts {
    let retry_cnt = RetryCount::new(1).unwrap();
    RcRts { retry_cnt, ..RcRts::new(Psn::new(5).unwrap(), ReadDepth::ONE) }
}

/// Proves R24.9.
#[test]
fn a_connection_uses_the_lids_of_its_path() {
    let dev = infiniband();
    let most = (1 << dev.ctx.query_port(1).unwrap().lmc) - 1;
    let ((a, b), [mut ca, mut cb], pd) = ends(&dev);
    let (na, nb) = (a.qp_num(), b.qp_num());
    let mut a = a.modify(rtr(path(&dev, most, 0), nb)).unwrap().modify(rts()).unwrap();
    let mut b = b.modify(rtr(path(&dev, 0, most), na)).unwrap().modify(rts()).unwrap();
    let pool = pd.create_pool(1, 64).unwrap();
    b.post_recv(wr::Recv::new(pool.take().unwrap())).unwrap();
    a.post_send(wr::Send::inline(b"by another LID")).unwrap();
    let received = poll(&dev, &mut cb, 1).remove(0).received().entry.unwrap();
    assert_eq!(received[..], *b"by another LID");
    poll(&dev, &mut ca, 1).remove(0).sent();
}

/// Packets of a connection from an unexpected LID are dropped.
#[test]
fn packets_from_another_lid_are_dropped() {
    let dev = infiniband();
    if dev.ctx.query_port(1).unwrap().lmc == 0 {
        return;
    }
    let ((a, b), [mut ca, _cb], _pd) = ends(&dev);
    let (na, nb) = (a.qp_num(), b.qp_num());
    let mut a = a.modify(rtr(path(&dev, 1, 0), nb)).unwrap().modify(rts()).unwrap();
    let _b = b.modify(rtr(path(&dev, 0, 0), na)).unwrap().modify(rts()).unwrap();
    a.post_send(wr::Send::inline(b"from a stranger")).unwrap();
    poll(&dev, &mut ca, 1).remove(0).failed(Direction::Send, WcStatus::RetryExc);
}

/// Providers truncate them silently.
///
/// Path bits that exceed the port's LIDs are rejected instead of truncated by the
/// provider.
/// Proves R24.9.
#[test]
fn path_bits_beyond_the_port_are_rejected() {
    let dev = infiniband();
    let most = (1_u8 << dev.ctx.query_port(1).unwrap().lmc) - 1;
    let ((a, _b), _queues, pd) = ends(&dev);
    assert!(pd.create_ah(path(&dev, most, 0)).is_ok());
    let is_beyond = |error: &proverbs::Error, verb| {
        assert_eq!(error.verb(), verb);
        let beyond = ErrorKind::Limit {
            what: "src_path_bits",
            asked: u64::from(most) + 1,
            max: most.into(),
        };
        assert_eq!(format!("{:?}", error.kind()), format!("{beyond:?}"));
    };
    let beyond = path(&dev, most + 1, 0);
    is_beyond(&pd.create_ah(beyond).unwrap_err(), "ibv_create_ah");
    let refused = a.modify(rtr(beyond, 9)).unwrap_err();
    is_beyond(&refused.error, "ibv_modify_qp");
    let a = refused.into_object();
    a.modify(rtr(path(&dev, most, 0), 9)).unwrap();
}

/// There is one LID, 0, and its bits are ignored.
/// Proves R24.9.
#[test]
fn path_bits_are_ignored_on_roce() {
    let dev = Device::open();
    let dev = match dev.ctx.protocol(1).unwrap() {
        Protocol::Roce => dev,
        _ => Device::loopback(&Fabric::with(World::ipv4().personality(Device::personality()))),
    };
    assert_eq!(dev.ctx.query_port(1).unwrap().link_layer, LinkLayer::Ethernet);
    let pd = dev.ctx.alloc_pd().unwrap();
    pd.create_ah(AddressVector { src_path_bits: 5, ..dev.vector() }).unwrap();
}

/// Proves R24.9.
#[test]
fn a_datagram_has_its_source_and_destination_lids() {
    let dev = infiniband();
    let most = (1 << dev.ctx.query_port(1).unwrap().lmc) - 1;
    let pd = dev.ctx.alloc_pd().unwrap();
    let mut sends: CompletionQueue = dev.ctx.create_cq(60).unwrap();
    let mut receives: CompletionQueueEx<DlidPathBits> = dev.ctx.cq(60).fields().create().unwrap();
    let wish = Wish::new();
    let [mut a, mut b]: [QueuePair<Ud, Rts>; 2] = [0; 2]
        .map(|_| Ud::up(pd.create_qp(&sends, &receives, wish.depth).unwrap(), &dev, 0, &wish));
    let pool = pd.create_pool(1, 64).unwrap();
    b.post_recv(wr::Recv::new(pool.take().unwrap())).unwrap();
    let ah = pd.create_ah(path(&dev, most, most - most / 2)).unwrap();
    let address_handle = a.add_address_handle(ah).unwrap();
    let (qpn, qkey) = (Qpn::new(b.qp_num()).unwrap(), Qkey::new(QKEY).unwrap());
    let to = wr::Destination { address_handle, qpn, qkey };
    a.post_send(wr::Send::inline(b"hello").to(to)).unwrap();
    poll(&dev, &mut sends, 1).remove(0).sent();
    let mut deadline = dev.deadline("the datagram must come");
    loop {
        if let Some((completion, fields)) = receives.poll().unwrap().next() {
            let bits = fields.dlid_path_bits();
            let Outcome::Datagram(message) = completion.outcome() else { panic!("a datagram") };
            let from = dev.ctx.query_port(1).unwrap().lid + u16::from(most);
            assert_eq!(message.reply_vector(1, 0).unwrap().dlid, from);
            assert_eq!(bits, Some(most - most / 2));
            break;
        }
        deadline.tick(&"");
    }
}

/// A loopback device whose ports have two paths to each other and support migration.
fn migrating() -> (Fabric, Device) {
    let personality = match Device::personality() {
        Personality::Rxe => Personality::Plain,
        other => other,
    };
    let fabric = Fabric::with(World::infiniband().lid_mask(2).personality(personality));
    let dev = Device::loopback(&fabric);
    (fabric, dev)
}

/// The alternate path, from the second LID to the second.
fn second(dev: &Device) -> AlternatePath {
    AlternatePath::new(path(dev, 1, 1))
}

/// Connects by the first LIDs, with this alternate path.
fn armable(
    qp: QueuePair<Rc, Init>,
    dev: &Device,
    peer: u32,
    by: AlternatePath,
) -> QueuePair<Rc, Rts> {
    let optional = RtrOptional { alternate: Some(by), ..Default::default() };
    let qp = qp.modify(RcRtr { optional, ..rtr(path(dev, 0, 0), peer) }).unwrap();
    let optional = RcRtsOptional { migration: Some(Migration::Rearm), ..Default::default() };
    qp.modify(RcRts { optional, ..rts() }).unwrap()
}

fn migration<T: Transport, S: State>(qp: &QueuePair<T, S>) -> MigrationState {
    qp.query_paths().unwrap().migration.unwrap()
}

fn qp_event(events: &mut DeviceEvents) -> Option<(u32, QpEvent)> {
    match events.try_next().unwrap()? {
        DeviceEvent::Qp { qp_num, event } => Some((qp_num, event)),
        other => panic!("{other}"),
    }
}

/// Sends an empty message from `a` to `b`.
fn send<T>(dev: &Device, [a, b]: [&mut QueuePair<T, Rts>; 2], [ca, cb]: [&mut CompletionQueue; 2])
where
    T: Transport,
    wr::WorkRequest<wr::Send, wr::Inline<'static, 0>>: wr::SendOn<T, DefaultProfile>,
{
    b.post_recv(wr::Recv::empty()).unwrap();
    a.post_send(wr::Send::inline(b"")).unwrap();
    poll(dev, ca, 1).remove(0).sent();
    poll(dev, cb, 1).remove(0).received();
}

/// Proves R24.10.
#[test]
fn a_broken_path_is_replaced_by_the_armed_one() {
    let (fabric, dev) = migrating();
    let mut events = dev.ctx.events().unwrap();
    let ((a, b), [mut ca, mut cb], _pd) = ends(&dev);
    let (na, nb) = (a.qp_num(), b.qp_num());
    let (mut a, mut b) = (armable(a, &dev, nb, second(&dev)), armable(b, &dev, na, second(&dev)));
    assert_eq!([&a, &b].map(migration), [MigrationState::Rearm; 2]);
    send(&dev, [&mut a, &mut b], [&mut ca, &mut cb]);
    assert_eq!([&a, &b].map(migration), [MigrationState::Armed; 2]);
    let paths = a.query_paths().unwrap();
    assert_eq!((paths.primary, paths.alternate), (path(&dev, 0, 0), Some(second(&dev))));

    let lid = dev.ctx.query_port(1).unwrap().lid;
    fabric.inject(Script::default().with(Fault::NoAnswer.always().to_lid(lid)));
    send(&dev, [&mut a, &mut b], [&mut ca, &mut cb]);
    for qp in [&a, &b] {
        let paths = qp.query_paths().unwrap();
        assert_eq!((paths.primary, migration(qp)), (path(&dev, 1, 1), MigrationState::Migrated));
    }
    assert_eq!(qp_event(&mut events), Some((na, QpEvent::PathMigrated)));
    assert_eq!(qp_event(&mut events), Some((nb, QpEvent::PathMigrated)));
    send(&dev, [&mut b, &mut a], [&mut cb, &mut ca]);
    assert_eq!(qp_event(&mut events), None);

    // Back to the first path, once that is repaired.
    fabric.inject(Script::default());
    let first = AlternatePath::new(path(&dev, 0, 0));
    let back = || {
        let (alternate, migration) = (Some(first), Some(Migration::Rearm));
        RcReturn(RcRtsOptional { alternate, migration, ..Default::default() })
    };
    let (mut a, mut b) = (a.modify(back()).unwrap(), b.modify(back()).unwrap());
    send(&dev, [&mut a, &mut b], [&mut ca, &mut cb]);
    let migrate = RcRtsOptional { migration: Some(Migration::Migrate), ..Default::default() };
    let mut b = b.modify(RcReturn(migrate)).unwrap();
    assert_eq!(qp_event(&mut events), Some((nb, QpEvent::PathMigrated)));
    send(&dev, [&mut b, &mut a], [&mut cb, &mut ca]);
    assert_eq!(qp_event(&mut events), Some((na, QpEvent::PathMigrated)));
    assert_eq!(a.query_paths().unwrap().primary, path(&dev, 0, 0));
}

/// Proves R24.10.
#[test]
fn a_path_that_only_one_side_arms_is_not_taken() {
    let (fabric, dev) = migrating();
    let mut events = dev.ctx.events().unwrap();
    let ((a, b), [mut ca, mut cb], _pd) = ends(&dev);
    let (na, nb) = (a.qp_num(), b.qp_num());
    let mut a = armable(a, &dev, nb, second(&dev));
    let mut b = b.modify(rtr(path(&dev, 0, 0), na)).unwrap().modify(rts()).unwrap();
    assert_eq!(b.query_paths().unwrap().alternate, None);
    send(&dev, [&mut a, &mut b], [&mut ca, &mut cb]);
    assert_eq!((migration(&a), migration(&b)), (MigrationState::Rearm, MigrationState::Migrated));
    let lid = dev.ctx.query_port(1).unwrap().lid;
    fabric.inject(Script::default().with(Fault::NoAnswer.always().to_lid(lid)));
    a.post_send(wr::Send::inline(b"")).unwrap();
    poll(&dev, &mut ca, 1).remove(0).failed(Direction::Send, WcStatus::RetryExc);
    assert_eq!(qp_event(&mut events), None);
}

/// Both are armed, but with different paths.
/// Proves R24.10.
#[test]
fn a_peer_without_the_path_does_not_follow() {
    let (fabric, dev) = migrating();
    let mut events = dev.ctx.events().unwrap();
    let ((a, b), [mut ca, mut cb], _pd) = ends(&dev);
    let (na, nb) = (a.qp_num(), b.qp_num());
    let other = AlternatePath::new(path(&dev, 2, 2));
    let (mut a, mut b) = (armable(a, &dev, nb, second(&dev)), armable(b, &dev, na, other));
    send(&dev, [&mut a, &mut b], [&mut ca, &mut cb]);
    let lid = dev.ctx.query_port(1).unwrap().lid;
    fabric.inject(Script::default().with(Fault::NoAnswer.always().to_lid(lid)));
    a.post_send(wr::Send::inline(b"")).unwrap();
    poll(&dev, &mut ca, 1).remove(0).failed(Direction::Send, WcStatus::RetryExc);
    assert_eq!(qp_event(&mut events), Some((na, QpEvent::PathMigrated)));
    assert_eq!(qp_event(&mut events), Some((nb, QpEvent::PathMigrationError)));
    assert_eq!((qp_event(&mut events), migration(&b)), (None, MigrationState::Armed));
}

/// The alternate path is broken too.
/// Proves R24.10.
#[test]
fn a_send_fails_when_both_paths_are_broken() {
    let (fabric, dev) = migrating();
    let mut events = dev.ctx.events().unwrap();
    let ((a, b), [mut ca, mut cb], _pd) = ends(&dev);
    let (na, nb) = (a.qp_num(), b.qp_num());
    let (mut a, mut b) = (armable(a, &dev, nb, second(&dev)), armable(b, &dev, na, second(&dev)));
    send(&dev, [&mut a, &mut b], [&mut ca, &mut cb]);
    fabric.inject(Script::default().with(Fault::NoAnswer.always()));
    a.post_send(wr::Send::inline(b"")).unwrap();
    poll(&dev, &mut ca, 1).remove(0).failed(Direction::Send, WcStatus::RetryExc);
    assert_eq!(fabric.injected().no_answer, 2, "once on each path");
    assert_eq!(qp_event(&mut events), Some((na, QpEvent::PathMigrated)));
}

/// UC does not detect a broken path; the program migrates.
/// Proves R24.10.
#[test]
fn a_program_takes_the_other_path_on_uc() {
    let (_fabric, dev) = migrating();
    let mut events = dev.ctx.events().unwrap();
    let pd = dev.ctx.alloc_pd().unwrap();
    let [mut ca, mut cb] = [0; 2].map(|_| dev.ctx.create_cq(20).unwrap());
    let wish = Wish::new();
    let [a, b] =
        [&ca, &cb].map(|cq| pd.create_qp::<Uc, DefaultProfile>(cq, cq, wish.depth).unwrap());
    let (na, nb) = (a.qp_num(), b.qp_num());
    let up = |qp: QueuePair<Uc, Reset>, peer: u32| {
        let psn = Psn::new(3).unwrap();
        let qp = Uc::init(qp, &wish);
        let qp = qp.modify(UcRtr::new(path(&dev, 0, 0), Qpn::new(peer).unwrap(), psn)).unwrap();
        let qp = stop(&dev, qp.modify(UcRts::new(psn)).unwrap());
        // In SQD, and on the way back to RTS.
        let alternate = UcSqd { alternate: Some(second(&dev)), ..Default::default() };
        let qp = drained(&dev, qp.modify(alternate).unwrap());
        let rearm = UcRtsOptional { migration: Some(Migration::Rearm), ..Default::default() };
        qp.modify(UcReturn(rearm)).unwrap()
    };
    let (mut a, mut b) = (up(a, nb), up(b, na));
    // Without acknowledgements a message arms only its receiver.
    send(&dev, [&mut a, &mut b], [&mut ca, &mut cb]);
    assert_eq!((migration(&a), migration(&b)), (MigrationState::Rearm, MigrationState::Armed));
    send(&dev, [&mut b, &mut a], [&mut cb, &mut ca]);
    assert_eq!(migration(&a), MigrationState::Armed);
    let migrate = UcRtsOptional { migration: Some(Migration::Migrate), ..Default::default() };
    let mut a = a.modify(UcReturn(migrate)).unwrap();
    send(&dev, [&mut a, &mut b], [&mut ca, &mut cb]);
    for number in [na, nb] {
        assert_eq!(qp_event(&mut events), Some((number, QpEvent::PathMigrated)));
    }
    assert_eq!(b.query_paths().unwrap().primary, path(&dev, 1, 1));
}

/// Proves R24.10.
#[test]
fn an_alternate_path_is_set_while_none_is_armed() {
    let (_fabric, dev) = migrating();
    let ((a, b), [mut ca, mut cb], _pd) = ends(&dev);
    let (na, nb) = (a.qp_num(), b.qp_num());
    let refused = |refused: Refused<QueuePair<Rc, Rts>>| {
        assert_eq!(refused.error.errno(), Some(libc::EINVAL), "{refused}");
        refused.into_object()
    };
    let with = |alternate, migration| {
        RcReturn(RcRtsOptional { alternate, migration, ..Default::default() })
    };
    let a = a.modify(rtr(path(&dev, 0, 0), nb)).unwrap().modify(rts()).unwrap();
    // There is no path to arm, and none is armed that could be taken.
    let a = refused(a.modify(with(None, Some(Migration::Rearm))).unwrap_err());
    let long = Timeout::exponent(20).unwrap();
    let other = AlternatePath { timeout: long, ..second(&dev) };
    let a = drained(
        &dev,
        stop(&dev, a).modify(RcSqd { alternate: Some(other), ..Default::default() }).unwrap(),
    );
    let mut a = a.modify(with(None, Some(Migration::Rearm))).unwrap();
    assert_eq!(a.query_paths().unwrap().alternate, Some(other));
    a = refused(a.modify(with(None, Some(Migration::Migrate))).unwrap_err());
    let mut b = armable(b, &dev, na, second(&dev));
    send(&dev, [&mut a, &mut b], [&mut ca, &mut cb]);
    a = refused(a.modify(with(Some(second(&dev)), None)).unwrap_err());
    assert_eq!(migration(&a), MigrationState::Armed);
    let a = a.modify(with(None, Some(Migration::Migrate))).unwrap();
    assert_eq!(a.query().unwrap().timeout, Some(long));
    // A reset forgets all of it.
    let a = a.reset().unwrap();
    let a = Rc::init(a, &Wish::new()).modify(rtr(path(&dev, 0, 0), nb)).unwrap();
    assert_eq!(
        (migration(&a), a.query_paths().unwrap().alternate),
        (MigrationState::Migrated, None)
    );
}

/// Checks that a path is rejected before the device is called, which leaves the queue pair in INIT.
fn is_refused(dev: &Device, by: AlternatePath, words: &[&str]) {
    let wish = Wish::new();
    let pd = dev.ctx.alloc_pd().unwrap();
    let cq = dev.ctx.create_cq(20).unwrap();
    let qp = Rc::init(pd.create_qp::<Rc, DefaultProfile>(&cq, &cq, wish.depth).unwrap(), &wish);
    let number = qp.qp_num();
    let optional = RtrOptional { alternate: Some(by), ..Default::default() };
    let refused = qp.modify(RcRtr { optional, ..rtr(dev.vector(), number) }).unwrap_err();
    for words in words {
        assert!(refused.to_string().contains(words), "{refused}");
    }
    let qp = refused.into_object();
    assert_eq!(qp.query().unwrap().state, Some(QpState::Init));
    let qp = qp.modify(rtr(dev.vector(), number)).unwrap();
    let optional = RcRtsOptional { migration: Some(Migration::Rearm), ..Default::default() };
    let refused = qp.modify(RcRts { optional, ..rts() }).unwrap_err();
    assert_eq!(refused.error.errno(), Some(libc::EOPNOTSUPP), "{refused}");
    assert!(refused.to_string().contains("a migration of the path"), "{refused}");
    refused.into_object().modify(rts()).unwrap();
}

/// Proves R8.13.
#[test]
fn roce_has_no_alternate_path() {
    let dev = Device::open();
    let dev = match dev.ctx.protocol(1).unwrap() {
        Protocol::Roce => dev,
        _ => Device::loopback(&Fabric::with(World::ipv4().personality(Device::personality()))),
    };
    let words = [
        " speaks RoCE, which has no alternate paths",
        "an alternate path via port 1, dgid ",
        "connect a second queue pair",
    ];
    is_refused(&dev, AlternatePath::new(dev.vector()), &words);
}

/// Proves R8.13.
#[test]
fn a_device_may_have_no_migration() {
    let dev = Device::loopback(&Fabric::with(World::infiniband().personality(Personality::Rxe)));
    is_refused(
        &dev,
        AlternatePath::new(dev.vector()),
        &["loop0 has no AUTO_PATH_MIG", "over the other path"],
    );
}

/// Proves R8.13.
#[test]
fn an_alternate_path_has_the_path_bits_of_its_port() {
    let (_fabric, dev) = migrating();
    let ((a, _b), _queues, _pd) = ends(&dev);
    let optional =
        RtrOptional { alternate: Some(AlternatePath::new(path(&dev, 4, 0))), ..Default::default() };
    let refused = a.modify(RcRtr { optional, ..rtr(path(&dev, 0, 0), 9) }).unwrap_err();
    assert!(refused.to_string().contains("src_path_bits 4 exceeds 3"), "{refused}");
}
