//! Endpoints: the description that a queue pair sends its peer, and connecting with it.

use std::io::{self, Read, Write};
use std::thread;
use std::time::{Duration, Instant};

use proverbs::bounded::ResponderDepth;
use proverbs::completion::WcOpcode;
use proverbs::device::Gid;
use proverbs::endpoint::*;
use proverbs::prelude::*;
use proverbs::state::QpState;

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

fn side<P: Profile<Receive = OwnRq, Threads = AnyThread>>(dev: &Device, stream: Wire) -> Side<P> {
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
    A: Profile<Receive = OwnRq, Threads = AnyThread>,
    B: Profile<Receive = OwnRq, Threads = AnyThread>,
{
    let dev = Device::open();
    let (here, there) = Wire::pair();
    (side(&dev, here), side(&dev, there))
}

#[test]
fn an_endpoint_describes_the_port_and_the_queue_pair() {
    fails_on!(Iwarp, "R24.5");
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

/// Proves R4.7.
#[test]
fn two_sides_connect_send_and_read() {
    fails_on!(Iwarp, "R24.5");
    let (a, b) = sides::<DefaultProfile, DefaultProfile>();
    let play = |mut side: Side<DefaultProfile>, byte: u8| {
        let recv = wr::Recv::new(poisoned(&side.pool));
        let mut qp = side.connector.qp();
        assert_eq!((qp.recv_room(), qp.depth().recv), (4, 4));
        qp.post_recv(recv).unwrap();
        assert_eq!(qp.recv_room(), 3);
        side.connector.set_psn(Psn::new(0xff_ffff).unwrap());
        side.connector.set_mtu(if byte == 1 { Mtu::Bytes512 } else { Mtu::Bytes1024 });
        side.connector.set_responder_depth(ResponderDepth::new(byte).unwrap());
        side.connector.set_initiator_depth(ReadDepth::new(2).unwrap());
        side.region.write_at(0, &[byte; 8]).unwrap();
        let (mut qp, peer) = side.connector.connect(&mut side.stream, long()).unwrap();
        assert_eq!(peer.psn().get(), 0xff_ffff, "as set by the peer's program");
        let attr = qp.query().unwrap();
        assert_eq!((attr.state, attr.path_mtu), (Some(QpState::Rts), Some(Mtu::Bytes512)));
        let (serves, wants) = (byte, 2.min(3 - byte));
        assert_eq!((attr.max_dest_rd_atomic, attr.max_rd_atomic), (serves, wants));
        qp.post_send(wr::Send::new(filled(&side.pool, &[byte; 4]))).unwrap();
        let from = peer.region::<RemoteRead>(0).unwrap();
        qp.post_send(wr::RdmaRead::new(filled(&side.pool, &[0; 8]), from.read())).unwrap();
        // Once both have posted, only polling is left to do.
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
        // Both are done before either is dropped.
        side.stream.write_all(b"!").unwrap();
        side.stream.read_exact(&mut [0]).unwrap();
    };
    let other = thread::spawn(move || play(b, 2));
    play(a, 1);
    other.join().unwrap();
}

/// Proves R4.7.
#[test]
fn a_peer_without_reads_needs_a_profile_without_reads() {
    fails_on!(Iwarp, "R24.5");
    let (a, mut b) = sides::<DefaultProfile, Modest>();
    b.connector.set_responder_depth(ResponderDepth::new(0).unwrap());
    let service =
        Service::ReliableConnection { initiator: None, responder: ResponderDepth::new(0).unwrap() };
    assert_eq!(b.connector.endpoint().service(), service);
    let other = thread::spawn(move || {
        let mut stream = b.stream;
        let refused = b.connector.connect(&mut stream, long()).map(|(_, peer)| peer).unwrap_err();
        assert_eq!(refused.to_string(), "the peer refused to connect");
        assert!(matches!(refused.into_object(), Stage::Rts(_)));
    });
    let mut stream = a.stream;
    let refused = a.connector.connect(&mut stream, long()).map(|(_, peer)| peer).unwrap_err();
    let text = "the peer serves no reads or atomics (its responder depth is 0): use a profile with \
                `initiator: NoReads`";
    assert_eq!(refused.to_string(), text);
    other.join().unwrap();
    // Nothing is lost: the queue pair is unchanged, and connects to another peer.
    let Stage::Init(qp) = refused.into_object() else { panic!("the queue pair was changed") };
    assert_eq!(qp.query().unwrap().state, Some(QpState::Init));
}

#[test]
fn bad_bytes_return_the_queue_pair() {
    fails_on!(Iwarp, "R24.5");
    let (mut a, b) = sides::<DefaultProfile, DefaultProfile>();
    let recv = wr::Recv::new(poisoned(&a.pool));
    a.connector.qp().post_recv(recv).unwrap();
    let mut other = b.stream;
    other.write_all(&[b'x'; 56]).unwrap();
    let refused = a.connector.connect(&mut a.stream, long()).map(|(_, peer)| peer).unwrap_err();
    let text = "the peer sent an invalid endpoint: expected an endpoint, which starts with \"pvep\", \
                got \"xxxx\"";
    assert_eq!(refused.to_string(), text);
    let (Stage::Init(qp), ConnectError::Exchange(error)) = refused.into_parts() else {
        panic!("it stays in INIT");
    };
    assert_eq!(error.received(), [b'x'; 56]);
    assert_eq!(qp.recvs_outstanding(), 1);
    // The peer receives the refusal.
    drop(a.stream);
    let mut heard = Vec::new();
    other.read_to_end(&mut heard).unwrap();
    assert!(heard.ends_with(b"pvno"), "{:?}", heard.escape_ascii().to_string());
}

/// Proves R5.5.
#[test]
fn another_transport_is_refused() {
    fails_on!(Iwarp, "R24.5");
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
        "an RC queue pair cannot connect to the peer's UnreliableConnection"
    );
    let nowhere = b.connector.endpoint().clone().with_gid(Gid::default());
    let refused = b.connector.connect_to(&nowhere).unwrap_err();
    assert!(refused.to_string().contains("the peer sent no GID, which RoCE needs"), "{refused}");
}

/// Long enough for everything that does not wait, also in a guest and under Miri.
const SHORT: Duration = Duration::from_millis(500);

type Connected = Result<QueuePair<Rc, Rts>, Refused<Stage<DefaultProfile>, ConnectError>>;

/// Connects to a peer that sends this, within `time`. Returns the error, the bytes that the peer
/// received, and the streams' timeouts, which must be unchanged.
fn connect_to(
    says: impl FnOnce(Vec<u8>) -> Vec<Say>,
    deaf_after: Option<(usize, io::ErrorKind)>,
    time: Duration,
) -> (Connected, Vec<u8>) {
    let (mut a, b) = sides::<DefaultProfile, DefaultProfile>();
    let recv = wr::Recv::new(poisoned(&a.pool));
    a.connector.qp().post_recv(recv).unwrap();
    let mut stream = Scripted::new(says(b.connector.endpoint().to_bytes()));
    let timeouts = Timeouts { read: Some(long()), write: None };
    stream.timeouts.set(timeouts);
    stream.deaf_after = deaf_after;
    let began = Instant::now();
    let result = a.connector.connect(&mut stream, time).map(|(qp, _)| qp);
    assert!(began.elapsed() < long() / 2, "{:?}", began.elapsed());
    assert_eq!(stream.timeouts.get(), timeouts, "the program's own");
    (result, stream.heard)
}

/// The state and message of a failure. The queue pair still has its receive.
fn failed(result: Connected) -> (&'static str, String) {
    let (stage, error) = result.expect_err("the peer is a bad one").into_parts();
    let (stage, left) = match &stage {
        Stage::Init(qp) => ("INIT", qp.recvs_outstanding()),
        Stage::Rtr(qp) => ("RTR", qp.recvs_outstanding()),
        Stage::Rts(qp) => ("RTS", qp.recvs_outstanding()),
    };
    assert_eq!(left, 1, "the queue pair is unchanged");
    (stage, error.to_string())
}

/// Ends: RcConnector::connect.
#[test]
fn a_peer_that_stops_does_not_exceed_the_time_limit() {
    fails_on!(Iwarp, "R24.5");
    let after = format!("within {SHORT:?}");
    // It sends nothing, part of its endpoint (which has 80 bytes with one region), or no last word.
    for (said, reached, came) in
        [(0, "INIT", "0 of 56"), (30, "INIT", "30 of 80"), (80, "RTS", "0 of 4")]
    {
        let says = |whole: Vec<u8>| {
            let piece = (said > 0).then(|| Say::Bytes(whole[..said].to_vec()));
            piece.into_iter().chain([Say::Silence]).collect()
        };
        let (result, heard) = connect_to(says, None, SHORT);
        let (stage, text) = failed(result);
        assert_eq!(
            (stage, text),
            (reached, format!("received {came} bytes from the peer {after}"))
        );
        // Everything was sent, so the peer can receive the refusal.
        let last = if stage == "INIT" { b"pvno" } else { b"pvok" };
        assert!(heard.ends_with(last), "{}", heard.escape_ascii());
    }
}

/// Connecting took until the deadline, so this side does not claim to be ready.
/// Ends: RcConnector::connect.
#[test]
fn a_peer_is_told_when_the_time_was_too_short() {
    fails_on!(Iwarp, "R24.5");
    let says =
        |whole: Vec<u8>| vec![Say::Bytes(whole[..56].to_vec()), Say::Late(whole[56..].to_vec())];
    let (result, heard) = connect_to(says, None, SHORT);
    let text = format!("received 0 of 4 bytes from the peer within {SHORT:?}");
    assert_eq!(failed(result), ("RTS", text));
    assert!(heard.ends_with(b"pvno"), "{}", heard.escape_ascii());
}

/// A byte now and then does not extend the time.
/// Ends: RcConnector::connect.
#[test]
fn a_slow_peer_does_not_exceed_the_time_limit() {
    fails_on!(Iwarp, "R24.5");
    let dripping = |whole: Vec<u8>, from: usize| -> Vec<Say> {
        let start = Say::Bytes(whole[..from].to_vec());
        let silences =
            std::iter::repeat_n((), 20_000).map(|()| Say::Fail(io::ErrorKind::WouldBlock));
        std::iter::once(start).chain(silences).collect()
    };
    for from in [1, 40] {
        let (result, heard) = connect_to(|whole| dripping(whole, from), None, SHORT);
        let (stage, text) = failed(result);
        assert_eq!(stage, "INIT");
        assert!(text.starts_with(&format!("received {from} of ")), "{text}");
        assert!(heard.ends_with(b"pvno"));
    }
}

#[test]
fn a_last_word_may_arrive_in_pieces() {
    fails_on!(Iwarp, "R24.5");
    let pieces = |word: &[u8; 4]| {
        let word = *word;
        move |whole: Vec<u8>| {
            vec![
                Say::Bytes(whole[..1].to_vec()),
                Say::Fail(io::ErrorKind::Interrupted),
                Say::Bytes(whole[1..].to_vec()),
                Say::Bytes(word[..1].to_vec()),
                Say::Fail(io::ErrorKind::Interrupted),
                Say::Fail(io::ErrorKind::WouldBlock),
                Say::Bytes(word[1..3].to_vec()),
                Say::Bytes(word[3..].to_vec()),
            ]
        }
    };
    let (result, heard) = connect_to(pieces(b"pvok"), None, long());
    assert_eq!(result.unwrap().recvs_outstanding(), 1);
    assert!(heard.ends_with(b"pvok") && !heard.ends_with(b"pvokpvok"));
    let (result, _) = connect_to(pieces(b"pvno"), None, long());
    assert_eq!(failed(result), ("RTS", "the peer refused to connect".into()));
    let (result, _) = connect_to(pieces(b"pvoo"), None, long());
    let text = "the peer sent \"pvoo\" instead of a verdict (pvok or pvno)";
    assert_eq!(failed(result), ("RTS", text.into()));
}

#[test]
fn a_failing_stream_reports_the_bytes_received() {
    fails_on!(Iwarp, "R24.5");
    let cases: [(usize, &[u8], &str, usize); 3] =
        [(0, b"", "INIT", 0), (20, b"", "INIT", 20), (usize::MAX, b"pv", "RTS", 2)];
    for (whole_part, word, reached, came) in cases {
        for hangs_up in [false, true] {
            let says = |whole: Vec<u8>| {
                let first = whole[..whole.len().min(whole_part)].to_vec();
                let mut says: Vec<_> = [first, word.to_vec()]
                    .into_iter()
                    .filter(|bytes| !bytes.is_empty())
                    .map(Say::Bytes)
                    .collect();
                if !hangs_up {
                    says.push(Say::Fail(io::ErrorKind::ConnectionReset));
                }
                says
            };
            let (result, _) = connect_to(says, None, long());
            let Err(Refused { error: ConnectError::Exchange(error), .. }) = &result else {
                panic!("the stream failed")
            };
            assert_eq!(error.received().len(), came);
            match error {
                ExchangeError::HungUp { .. } => assert!(hangs_up),
                ExchangeError::Io { error, .. } => {
                    assert!(!hangs_up);
                    assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
                }
                other => panic!("{other}"),
            }
            assert_eq!(failed(result).0, reached);
        }
    }
}

/// If our last word is not delivered, the peer's does not count.
#[test]
fn a_peer_that_does_not_receive_the_last_word() {
    fails_on!(Iwarp, "R24.5");
    let says = |whole: Vec<u8>| vec![Say::Bytes(whole), Say::Bytes(b"pvok".to_vec())];
    let (result, heard) = connect_to(says, Some((80, io::ErrorKind::TimedOut)), SHORT);
    let text = format!("received 0 of 4 bytes from the peer within {SHORT:?}");
    assert_eq!(failed(result), ("RTS", text));
    assert!(heard.ends_with(b"pvno"), "{}", heard.escape_ascii());
    // A peer that went away, whatever it sent before.
    let (result, heard) = connect_to(says, Some((80, io::ErrorKind::BrokenPipe)), long());
    let (stage, text) = failed(result);
    assert!(stage == "RTS" && heard.ends_with(b"pvno"), "{}", heard.escape_ascii());
    assert!(text.starts_with("the stream to the peer failed after 0 bytes: "), "{text}");
    // A stream that accepts no more bytes and returns no error.
    let (result, heard) = connect_to(says, Some((80, io::ErrorKind::WriteZero)), SHORT);
    let (stage, text) = failed(result);
    assert_eq!((stage, heard.len()), ("RTS", 80));
    assert!(text.starts_with("the stream to the peer failed after 0 bytes: "), "{text}");
}

/// A stream without timeouts is not used without one.
#[test]
fn a_stream_without_time_outs() {
    fails_on!(Iwarp, "R24.5");
    let (mine, theirs) = sides::<DefaultProfile, DefaultProfile>();
    let mut stream = Scripted::new([Say::Bytes(theirs.connector.endpoint().to_bytes())]);
    stream.is_timeless = true;
    let error = exchange(&mut stream, mine.connector.endpoint(), long()).unwrap_err();
    let ExchangeError::Io { error, received } = error else { panic!("{error}") };
    assert_eq!((error.kind(), received.len()), (io::ErrorKind::Unsupported, 0));
    assert_eq!(stream.heard, []);
}

#[test]
fn an_error_names_its_source() {
    fails_on!(Iwarp, "R24.5");
    use std::error::Error;
    let hangs_up = |_: Vec<u8>| vec![Say::Fail(io::ErrorKind::ConnectionReset)];
    let (result, _) = connect_to(hangs_up, None, long());
    let error = result.unwrap_err().error;
    let exchange = error.source().unwrap();
    assert_eq!(exchange.to_string(), error.to_string());
    assert!(exchange.source().is_some_and(|io| io.is::<io::Error>()));
    let verbs = ConnectError::from(Device::open().ctx.query_port(9).unwrap_err());
    assert_eq!(verbs.source().unwrap().to_string(), verbs.to_string());
    assert!(ConnectError::PeerRefused.source().is_none());
}

/// A refusal in the middle of an endpoint would be read as part of it.
#[test]
fn no_refusal_is_sent_in_the_middle_of_an_endpoint() {
    fails_on!(Iwarp, "R24.5");
    let (result, heard) =
        connect_to(|whole| vec![Say::Bytes(whole)], Some((10, io::ErrorKind::TimedOut)), SHORT);
    let (stage, text) = failed(result);
    assert_eq!((stage, heard.len()), ("INIT", 10));
    assert!(text.starts_with("received 0 of "), "{text}");
    assert!(!heard.ends_with(b"pvno"));
}
