//! Paths of InfiniBand: on the device under test if it speaks that, and otherwise on a loopback
//! device whose ports have four LIDs.

use proverbs::ErrorKind;
use proverbs::completion::{CompletionQueueEx, Direction, DlidPathBits};
use proverbs::device::{LinkLayer, Protocol};
use proverbs::loopback::{Fabric, World};
use proverbs::prelude::*;

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

/// From the port's LID with these bits to that with those.
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
    RcRts::new(Psn::new(5).unwrap(), ReadDepth::ONE)
}

#[test]
fn a_connection_takes_the_lids_that_its_path_names() {
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

/// Packets of a connection that come from another LID than it knows are dropped.
#[test]
fn a_connection_from_another_lid_is_none() {
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

/// Providers cut them off in silence.
#[test]
fn path_bits_that_the_port_has_not_are_refused() {
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

/// There is one LID, 0, and nothing looks at its bits.
#[test]
fn path_bits_mean_nothing_on_roce() {
    let dev = Device::open();
    let dev = match dev.ctx.protocol(1).unwrap() {
        Protocol::Roce => dev,
        _ => Device::loopback(&Fabric::with(World::ipv4().personality(Device::personality()))),
    };
    assert_eq!(dev.ctx.query_port(1).unwrap().link_layer, LinkLayer::Ethernet);
    let pd = dev.ctx.alloc_pd().unwrap();
    pd.create_ah(AddressVector { src_path_bits: 5, ..dev.vector() }).unwrap();
}

#[test]
fn a_datagram_says_which_lids_it_came_from_and_to() {
    let dev = infiniband();
    let most = (1 << dev.ctx.query_port(1).unwrap().lmc) - 1;
    let pd = dev.ctx.alloc_pd().unwrap();
    let mut sends: CompletionQueue = dev.ctx.create_cq(60).unwrap();
    let mut receives: CompletionQueueEx<DlidPathBits> = dev.ctx.create_cq_ex(60).unwrap();
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
