//! Endpoints: what a queue pair tells its peer, and connecting by that.

use std::io::{Read, Write};
use std::thread;

use proverbs::endpoint::*;
use proverbs::*;

use crate::support::*;

profile! {
    /// Issues no reads.
    Modest { initiator: NoReads }
}

struct Side<P: Profile> {
    connector: RcConnector<P>,
    cq: CompletionQueue<P::Entry>,
    pool: Pool,
    region: MemoryRegion<RemoteReadWrite>,
    stream: Wire,
    dev: Device,
}

fn side<P: Profile<Receive = OwnRq>>(dev: &Device, stream: Wire) -> Side<P> {
    let pd = dev.ctx.alloc_pd().unwrap();
    let cq = dev.ctx.create_cq(20).unwrap();
    let depth = Depth { send: 4, recv: 4 };
    let qp = pd.create_qp::<Rc, P>(&cq, &cq, depth).unwrap();
    let init = ConnectedInit { pkey_index: 0, port: 1, access: QpAccess::all() };
    let qp = qp.modify(init).unwrap();
    let (pool, region) = (pd.create_pool(8, 64).unwrap(), pd.register(64).unwrap());
    let mut connector = RcConnector::new(qp, Some(dev.gid_index)).unwrap();
    connector.export(region.export::<RemoteRead>()).unwrap();
    Side { connector, cq, pool, region, stream, dev: dev.clone() }
}

fn sides<A, B>() -> (Side<A>, Side<B>)
where
    A: Profile<Receive = OwnRq>,
    B: Profile<Receive = OwnRq>,
{
    let dev = Device::open();
    let (here, there) = Wire::pair();
    (side(&dev, here), side(&dev, there))
}

#[test]
fn an_endpoint_says_what_the_port_and_the_queue_pair_are() {
    let (a, _b) = sides::<DefaultProfile, DefaultProfile>();
    let (mine, port) = (a.connector.endpoint(), a.dev.ctx.query_port(1).unwrap());
    assert_eq!((mine.gid(), mine.lid()), (a.dev.gid(), port.lid));
    assert_eq!(Some(mine.mtu()), port.active_mtu);
    assert_eq!(mine.depth(), Depth { send: 4, recv: 4 });
    let one = Service::ReliableConnection {
        initiator: Some(ReadDepth::ONE),
        responder: ResponderDepth::ONE,
    };
    assert_eq!(mine.service(), one);
    assert_eq!(
        mine.regions()[0].rkey(),
        a.region.remote().to_bytes()[16..20].iter().fold(0, |n, &b| n << 8 | u32::from(b))
    );
    assert_eq!(&Endpoint::from_bytes(&mine.to_bytes()).unwrap(), mine);
    let number = mine.qpn();
    assert_eq!(a.connector.into_qp().qp_num(), number.get());
}

#[test]
fn two_sides_connect_send_and_read() {
    let (a, b) = sides::<DefaultProfile, DefaultProfile>();
    let play = |mut side: Side<DefaultProfile>, byte: u8| {
        let recv = Recv::new(poisoned(&side.pool));
        side.connector.qp().post_recv(recv).unwrap();
        side.connector.set_psn(Psn::new(0xff_ffff).unwrap());
        side.connector.set_mtu(if byte == 1 { Mtu::Bytes512 } else { Mtu::Bytes1024 });
        side.connector.set_responder_depth(ResponderDepth::new(byte).unwrap());
        side.connector.set_initiator_depth(ReadDepth::new(2).unwrap());
        side.region.write_at(0, &[byte; 8]).unwrap();
        let (mut qp, peer) = side.connector.connect(&mut side.stream).unwrap();
        let attr = qp.query().unwrap();
        assert_eq!((attr.state, attr.path_mtu), (Some(QpState::Rts), Some(Mtu::Bytes512)));
        let (serves, wants) = (byte, 2.min(3 - byte));
        assert_eq!((attr.max_dest_rd_atomic, attr.max_rd_atomic), (serves, wants));
        qp.post_send(Send::new(filled(&side.pool, &[byte; 4]))).unwrap();
        let from = peer.region::<RemoteRead>(0).unwrap();
        qp.post_send(RdmaRead::new(filled(&side.pool, &[0; 8]), from.read())).unwrap();
        // Once both have posted, polling is all that is left to do.
        side.stream.write_all(b"!").unwrap();
        side.stream.read_exact(&mut [0]).unwrap();
        let mut entries = Vec::new();
        for done in poll(&side.dev, &mut side.cq, 3) {
            match done {
                Done::Sent(sent) if sent.opcode == WcOpcode::RdmaRead => {
                    entries.push(sent.entry.unwrap());
                }
                Done::Sent(_) => {}
                other => assert_eq!(other.received().data(), [3 - byte; 4]),
            }
        }
        assert_eq!(entries[0][..8], [3 - byte; 8]);
        // Both are done before either is gone.
        side.stream.write_all(b"!").unwrap();
        side.stream.read_exact(&mut [0]).unwrap();
    };
    let other = thread::spawn(move || play(b, 2));
    play(a, 1);
    other.join().unwrap();
}

#[test]
fn a_peer_that_serves_no_reads_is_for_profiles_without() {
    let (a, mut b) = sides::<DefaultProfile, Modest>();
    b.connector.set_responder_depth(ResponderDepth::new(0).unwrap());
    let service =
        Service::ReliableConnection { initiator: None, responder: ResponderDepth::new(0).unwrap() };
    assert_eq!(b.connector.endpoint().service(), service);
    let other = thread::spawn(move || {
        let mut stream = b.stream;
        let refused = b.connector.connect(&mut stream).map(|(_, peer)| peer).unwrap_err();
        assert_eq!(refused.to_string(), "the peer refused to connect");
        assert!(matches!(refused.stage, Stage::Rts(_)));
    });
    let mut stream = a.stream;
    let refused = a.connector.connect(&mut stream).map(|(_, peer)| peer).unwrap_err();
    let text = "the peer serves no reads or atomics (its responder depth is 0): use a profile with \
                `initiator: NoReads`";
    assert_eq!(refused.to_string(), text);
    other.join().unwrap();
    // Nothing is lost: the queue pair is as it was, and connects to another.
    let Stage::Init(qp) = refused.stage else { panic!("{:?}", refused.stage) };
    assert_eq!(qp.query().unwrap().state, Some(QpState::Init));
}

#[test]
fn bad_bytes_give_the_queue_pair_back() {
    let (mut a, b) = sides::<DefaultProfile, DefaultProfile>();
    let recv = Recv::new(poisoned(&a.pool));
    a.connector.qp().post_recv(recv).unwrap();
    let mut other = b.stream;
    other.write_all(&[b'x'; 56]).unwrap();
    let refused = a.connector.connect(&mut a.stream).map(|(_, peer)| peer).unwrap_err();
    let text = "what the peer sent is no endpoint: an endpoint starts with \"pvep\", these bytes with \"xxxx\"";
    assert_eq!(refused.to_string(), text);
    let (Stage::Init(qp), ConnectError::Exchange(error)) = (refused.stage, refused.error) else {
        panic!("it stays in INIT");
    };
    assert_eq!(error.received(), [b'x'; 56]);
    assert_eq!(qp.recvs_outstanding(), 1);
    // The peer hears of it.
    drop(a.stream);
    let mut heard = Vec::new();
    other.read_to_end(&mut heard).unwrap();
    assert!(heard.ends_with(b"pvno"), "{:?}", heard.escape_ascii().to_string());
}

#[test]
fn another_transport_is_refused_and_other_transports_tell_of_themselves() {
    let (a, b) = sides::<DefaultProfile, DefaultProfile>();
    let (dev, pd) = (&a.dev, a.dev.ctx.alloc_pd().unwrap());
    let cq: CompletionQueue = dev.ctx.create_cq(20).unwrap();
    let depth = Depth { send: 2, recv: 2 };
    let init = ConnectedInit { pkey_index: 0, port: 1, access: QpAccess::empty() };
    let uc = pd.create_qp::<Uc, DefaultProfile>(&cq, &cq, depth).unwrap().modify(init).unwrap();
    let uc = Endpoint::of_uc(&uc, Some(dev.gid_index)).unwrap();
    let qkey = Qkey::new(QKEY).unwrap();
    let init = UdInit { pkey_index: 0, port: 1, qkey: qkey.into() };
    let ud = pd.create_qp::<Ud, DefaultProfile>(&cq, &cq, depth).unwrap().modify(init).unwrap();
    let ud = Endpoint::of_ud(&ud, qkey, Some(dev.gid_index)).unwrap();
    assert_eq!(
        (uc.service(), ud.service()),
        (Service::UnreliableConnection, Service::UnreliableDatagram { qkey })
    );
    assert_eq!(ud.address(&dev.ctx, 1, Some(dev.gid_index)).unwrap(), dev.vector());
    let refused = a.connector.connect_to(&uc).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "an RC queue pair connects to another, the peer's is a UnreliableConnection"
    );
    let nowhere = b.connector.endpoint().clone().with_gid(Gid::default());
    let refused = b.connector.connect_to(&nowhere).unwrap_err();
    assert!(refused.to_string().contains("the peer sent no GID, which RoCE needs"), "{refused}");
}
