//! Endpoints on the wire: every valid one is transferred unchanged, and everything else is
//! rejected.
#![forbid(unsafe_code)]

use std::io::{self, Cursor, Read, Write};
use std::thread;
use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use proverbs::bounded::{ResponderDepth, SrqNum};
use proverbs::device::{Gid, GidKind};
use proverbs::endpoint::*;
use proverbs::prelude::*;

#[path = "patience/mod.rs"]
mod patience;
use patience::long;

/// Exports a slice with the sum of REMOTE_WRITE, REMOTE_READ and REMOTE_ATOMIC that some region
/// type has.
fn export(endpoint: &mut Endpoint, rights: usize, addr: u64, len: u64, rkey: u32) {
    let result = match rights % 5 {
        0 => endpoint.export(RemoteSlice::<RemoteRead>::from_parts(addr, len, rkey)),
        1 => endpoint.export(RemoteSlice::<RemoteWrite>::from_parts(addr, len, rkey)),
        2 => endpoint.export(RemoteSlice::<RemoteReadWrite>::from_parts(addr, len, rkey)),
        3 => endpoint.export(RemoteSlice::<RemoteAtomic>::from_parts(addr, len, rkey)),
        _ => endpoint.export(RemoteSlice::<RemoteAll>::from_parts(addr, len, rkey)),
    };
    result.expect("a region");
}

fn service() -> impl Strategy<Value = Service> {
    prop_oneof![
        (0..=128u8, 0..=128u8).prop_map(|(initiator, responder)| Service::ReliableConnection {
            initiator: ReadDepth::new(initiator),
            responder: ResponderDepth::new(responder).unwrap(),
        }),
        Just(Service::UnreliableConnection),
        (0..=Qkey::MAX.get())
            .prop_map(|key| Service::UnreliableDatagram { qkey: Qkey::new(key).unwrap() }),
        (0..=128u8).prop_map(|depth| Service::XrcInitiator { initiator: ReadDepth::new(depth) }),
        (0..=128u8, 0..=SrqNum::MAX.get()).prop_map(|(responder, srq)| Service::XrcTarget {
            responder: ResponderDepth::new(responder).unwrap(),
            srq: SrqNum::new(srq).unwrap(),
        }),
    ]
}

fn endpoint() -> impl Strategy<Value = Endpoint> {
    let numbers = (2..0xff_ffffu32, 0..=Psn::MAX.get(), 0..5u32, any::<u16>());
    let depth = (any::<u32>(), any::<u32>());
    let region = (any::<usize>(), any::<u64>(), 1..=u64::MAX, any::<u32>());
    let regions = proptest::collection::vec(region, 0..40);
    let all = (service(), numbers, any::<[u8; 16]>(), 0..4u8, depth, regions);
    all.prop_map(|(service, (qpn, psn, mtu, lid), gid, kind, (send, recv), regions)| {
        let mtu = Mtu::from_bytes(256 << mtu).unwrap();
        let (qpn, psn) = (Qpn::new(qpn).unwrap(), Psn::new(psn).unwrap());
        let mut endpoint = Endpoint::new(service, qpn, psn, mtu)
            .unwrap()
            .with_gid(Gid(gid))
            .with_lid(lid)
            .with_depth(Depth { send, recv });
        let kinds = [GidKind::InfiniBand, GidKind::RoceV1, GidKind::RoceV2];
        if let Some(kind) = kinds.get(kind as usize) {
            endpoint = endpoint.with_gid_kind(*kind);
        }
        for (rights, addr, len, rkey) in regions {
            let len = len.min((u64::MAX - addr).max(1));
            export(&mut endpoint, rights, addr, len, rkey);
        }
        endpoint
    })
}

/// The same cases in every run, so that failures are reproducible.
fn check<S: Strategy>(strategy: S, test: impl Fn(S::Value) -> Result<(), TestCaseError>)
where
    S::Value: std::fmt::Debug,
{
    let config = Config { cases: 512, failure_persistence: None, ..Config::default() };
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, b"endpoints: the same in every run");
    TestRunner::new_with_rng(config, rng).run(&strategy, test).unwrap();
}

fn plain() -> Endpoint {
    let (qpn, psn) = (Qpn::new(0x1c).unwrap(), Psn::new(0x11_4bab).unwrap());
    let service = Service::ReliableConnection {
        initiator: Some(ReadDepth::ONE),
        responder: ResponderDepth::new(4).unwrap(),
    };
    Endpoint::new(service, qpn, psn, Mtu::Bytes1024).unwrap()
}

#[test]
fn an_endpoint_has_the_values_it_was_made_with() {
    let (gid, depth) = (Gid([3; 16]), Depth { send: 5, recv: 6 });
    let endpoint = plain().with_gid(gid).with_lid(0x102).with_depth(depth);
    assert_eq!((endpoint.gid(), endpoint.lid(), endpoint.depth()), (gid, 0x102, depth));
    assert_eq!((endpoint.qpn().get(), endpoint.psn().get()), (0x1c, 0x11_4bab));
    assert_eq!((endpoint.mtu(), endpoint.regions().len()), (Mtu::Bytes1024, 0));
    assert_eq!((plain().gid(), plain().lid()), (Gid::default(), 0));
    // The exact prefix gives the length; one byte less does not.
    let bytes = endpoint.to_bytes();
    let needed = Endpoint::MIN_WIRE_LEN;
    for got in 0..needed {
        let error = Endpoint::split_bytes(&bytes[..got]).unwrap_err();
        let needed = if got < 12 { 12 } else { needed };
        assert_eq!(error, WireError::Truncated { needed, got });
    }
    // A wrong beginning is shown as far as it was received.
    for (said, found) in [(&b"G"[..], [b'G', 0, 0, 0]), (b"GE", [b'G', b'E', 0, 0])] {
        assert_eq!(Endpoint::split_bytes(said).unwrap_err(), WireError::Magic(found));
    }
}

#[test]
fn every_endpoint_is_transferred_unchanged() {
    check(endpoint(), |endpoint| {
        let mut bytes = endpoint.to_bytes();
        prop_assert_eq!(&Endpoint::from_bytes(&bytes), &Ok(endpoint.clone()));
        bytes.extend_from_slice(b"more");
        let (again, rest) = Endpoint::split_bytes(&bytes).unwrap();
        prop_assert_eq!((&again, rest), (&endpoint, &b"more"[..]));
        prop_assert_eq!(Endpoint::from_bytes(&bytes), Err(WireError::Trailing { extra: 4 }));
        Ok(())
    });
}

#[test]
fn accepted_bytes_are_written_unchanged() {
    // Any byte changed: the result is invalid, or is exactly the endpoint that these bytes encode.
    check((endpoint(), any::<prop::sample::Index>(), 1..=255u8), |(endpoint, at, flip)| {
        let mut bytes = endpoint.to_bytes();
        let at = at.index(bytes.len());
        bytes[at] ^= flip;
        if let Ok(read) = Endpoint::from_bytes(&bytes) {
            prop_assert_eq!(read.to_bytes(), bytes);
        }
        Ok(())
    });
}

#[test]
fn every_prefix_is_recognised_as_incomplete() {
    check((endpoint(), any::<prop::sample::Index>()), |(endpoint, at)| {
        let bytes = endpoint.to_bytes();
        let got = at.index(bytes.len());
        let needed = if got < 12 { 12 } else { bytes.len() };
        let truncated = WireError::Truncated { needed, got };
        prop_assert_eq!(Endpoint::from_bytes(&bytes[..got]), Err(truncated));
        Ok(())
    });
}

#[test]
fn no_bytes_cause_a_panic() {
    check(proptest::collection::vec(any::<u8>(), 0..200), |bytes| {
        prop_assert!(Endpoint::from_bytes(&bytes).is_err());
        Ok(())
    });
}

#[test]
fn the_format_is_the_documented_one() {
    let mut endpoint = plain().with_gid(Gid([9; 16])).with_lid(0x0102);
    endpoint = endpoint.with_depth(Depth { send: 3, recv: 500 }).with_gid_kind(GidKind::RoceV2);
    export(&mut endpoint, 2, 0x0011_2233_4455_6677, 0x1000, 0xaabb_ccdd);
    let expected = b"pvep\0\x02\0\x01\0\0\0\x50\x01\x03\x01\x02\0\0\0\x1c\0\x11\x4b\xab\
        \x09\x09\x09\x09\x09\x09\x09\x09\x09\x09\x09\x09\x09\x09\x09\x09\x01\x04\x03\0\0\0\0\0\
        \0\0\0\x03\0\0\x01\xf4\
        \0\x11\x22\x33\x44\x55\x66\x77\0\0\0\0\0\0\x10\0\xaa\xbb\xcc\xdd\0\0\0\x06";
    assert_eq!(endpoint.to_bytes().escape_ascii().to_string(), expected.escape_ascii().to_string());
}

/// The error of `plain()` with one region and the bytes at `at` changed.
#[track_caller]
fn wrong(at: usize, bytes: &[u8]) -> String {
    let mut endpoint = plain();
    export(&mut endpoint, 0, 0x1000, 16, 1);
    let mut wire = endpoint.to_bytes();
    wire[at..at + bytes.len()].copy_from_slice(bytes);
    Endpoint::from_bytes(&wire).expect_err("no endpoint").to_string()
}

#[test]
fn every_field_is_checked_and_named() {
    assert_eq!(wrong(0, b"GET "), "expected an endpoint, which starts with \"pvep\", got \"GET \"");
    assert_eq!(wrong(4, &[0, 1]), "unsupported format version 1; expected 2");
    assert_eq!(wrong(6, &[4, 1]), "1025 regions exceed 1024");
    assert_eq!(wrong(6, &[0, 2]), "an endpoint with 2 regions has 104 bytes, not 80");
    assert_eq!(wrong(8, &[255; 4]), "an endpoint with 1 regions has 80 bytes, not 4294967295");
    assert_eq!(wrong(12, &[6]), "unknown service 6; expected 1 (RC), 2 (UC), 3 (UD), 4 or 5 (XRC)");
    assert_eq!(
        wrong(13, &[0]),
        "unknown path MTU 0; expected a code from 1 to 5, or 256 to 4096 bytes"
    );
    assert_eq!(
        wrong(13, &[6]),
        "unknown path MTU 6; expected a code from 1 to 5, or 256 to 4096 bytes"
    );
    assert_eq!(wrong(16, &[1]), "queue pair number 16777244 exceeds 16777215");
    let reserved = "is reserved for management or multicast";
    assert_eq!(wrong(19, &[1]), format!("queue pair number 0x1 {reserved}"));
    assert_eq!(wrong(17, &[255; 3]), format!("queue pair number 0xffffff {reserved}"));
    assert_eq!(wrong(20, &[1]), "PSN 17910699 exceeds 16777215");
    assert_eq!(wrong(40, &[129]), "max_rd_atomic 129 exceeds 128");
    assert_eq!(wrong(41, &[255]), "max_dest_rd_atomic 255 exceeds 128");
    let mut wire = plain().to_bytes();
    wire[40] = 129;
    let Err(WireError::OutOfRange(error)) = Endpoint::from_bytes(&wire) else { panic!("129") };
    assert_eq!((error.asked, error.min, error.max), (129, 0, 128));
    let foreign = "must be 0 for this service, got";
    // An initiator serves nothing, and a target requests nothing.
    assert_eq!(wrong(12, &[4]), format!("responder depth {foreign} 4"));
    assert_eq!(wrong(12, &[5]), format!("initiator depth {foreign} 1"));
    assert_eq!(wrong(43, &[1]), format!("the field at 43 {foreign} 1"));
    let none =
        "unknown GID kind 4; expected 0 (unknown), 1 (InfiniBand), 2 (RoCE v1) or 3 (RoCE v2)";
    assert_eq!(wrong(42, &[4]), none);
    assert_eq!(wrong(47, &[1]), format!("Q_Key {foreign} 1"));
    assert_eq!(wrong(12, &[2]), format!("initiator depth {foreign} 1"));
    let (qpn, psn) = (Qpn::new(0x1c).unwrap(), Psn::new(0).unwrap());
    // Fields that belong to another service.
    let [asks, serves, key] = [(40, "initiator depth"), (41, "responder depth"), (47, "Q_Key")];
    let (initiator, responder) = (None, ResponderDepth::new(0).unwrap());
    let srq = SrqNum::new(0).unwrap();
    for (service, fields) in [
        (Service::ReliableConnection { initiator, responder }, &[key][..]),
        (Service::UnreliableConnection, &[asks, serves, key]),
        (Service::UnreliableDatagram { qkey: Qkey::new(0).unwrap() }, &[asks, serves]),
        (Service::XrcInitiator { initiator }, &[serves, key]),
        (Service::XrcTarget { responder, srq }, &[asks]),
    ] {
        let wire = Endpoint::new(service, qpn, psn, Mtu::Bytes1024).unwrap().to_bytes();
        assert_eq!([40, 41, 47].map(|at| wire[at]), [0; 3], "{service:?}");
        assert_eq!(Endpoint::from_bytes(&wire).unwrap().service(), service);
        for (at, what) in fields {
            let mut wire = wire.clone();
            wire[*at] = 1;
            let error = Endpoint::from_bytes(&wire).unwrap_err();
            assert_eq!(error.to_string(), format!("{what} {foreign} 1"));
        }
    }
    assert_eq!(
        wrong(56, &[255; 8]),
        "region 0: 16 bytes at 0xffffffffffffffff end past the end of the address space"
    );
    assert_eq!(wrong(71, &[0]), "region 0: it is empty");
    assert_eq!(wrong(79, &[0]), "region 0: it grants no remote right");
    let sum = "are not a sum of 2 (write), 4 (read) and 8 (atomic)";
    assert_eq!(wrong(79, &[5]), format!("region 0: rights 0x5 {sum}"));
}

#[test]
fn regions_keep_their_rights() {
    let mut endpoint = plain();
    export(&mut endpoint, 4, 0x1000, 16, 1);
    export(&mut endpoint, 0, 0x2000, 16, 2);
    let peer = Endpoint::from_bytes(&endpoint.to_bytes()).unwrap();
    assert!(peer.region::<RemoteWrite>(0).is_ok() && peer.region::<RemoteAll>(0).is_ok());
    assert_eq!(peer.region::<RemoteRead>(1).unwrap().len(), 16);
    let error = peer.region::<RemoteReadWrite>(1).unwrap_err().to_string();
    assert_eq!(error, "region 1 grants REMOTE_READ, not REMOTE_WRITE | REMOTE_READ");
    let error = peer.region::<RemoteRead>(2).unwrap_err().to_string();
    assert_eq!(error, "no region 2: the peer exported 2");
    let nothing = RemoteSlice::<LocalWrite>::from_parts(1, 1, 1);
    let error = endpoint.export(nothing).unwrap_err().to_string();
    assert_eq!(error, "region 2: it grants no remote right");
    for _ in 2..Endpoint::MAX_REGIONS {
        export(&mut endpoint, 0, 0x1000, 16, 1);
    }
    let one_more = RemoteSlice::<RemoteRead>::from_parts(1, 1, 1);
    assert_eq!(endpoint.export(one_more), Err(WireError::TooManyRegions { count: 1025 }));
    assert_eq!(endpoint.to_bytes().len(), Endpoint::MAX_WIRE_LEN);
    assert_eq!(Endpoint::from_bytes(&endpoint.to_bytes()), Ok(endpoint));
}

fn lengthy(seed: u32) -> Endpoint {
    let mut endpoint = plain();
    for i in 0..Endpoint::MAX_REGIONS as u32 {
        export(&mut endpoint, i as usize, 0x1000, 16, seed ^ i);
    }
    endpoint
}

/// A stream that holds `room` bytes, and then blocks until they are read.
fn narrow(room: usize) -> (Narrow, Narrow) {
    let end = || {
        let (to, from) = std::sync::mpsc::sync_channel(room);
        (to, from)
    };
    let ((to_a, from_a), (to_b, from_b)) = (end(), end());
    (Narrow { to: to_a, from: from_b }, Narrow { to: to_b, from: from_a })
}

struct Narrow {
    to: std::sync::mpsc::SyncSender<u8>,
    from: std::sync::mpsc::Receiver<u8>,
}

impl Read for Narrow {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let Ok(byte) = self.from.recv() else { return Ok(0) };
        buf[0] = byte;
        Ok(1)
    }
}

impl Write for Narrow {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.to.send(buf[0]).map_err(|_| io::ErrorKind::BrokenPipe)?;
        Ok(1)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn long_endpoints_do_not_block_each_other() {
    for (a, b) in [(lengthy(1), lengthy(2)), (lengthy(3), plain()), (plain(), lengthy(4))] {
        let (mut here, mut there) = narrow(2 * CHUNK);
        let sent = b.clone();
        let other =
            thread::spawn(move || exchange(&mut Unbounded(&mut there), &sent, long()).unwrap());
        assert_eq!(exchange(&mut Unbounded(&mut here), &a, long()).unwrap(), b);
        assert_eq!(other.join().unwrap(), a);
    }
}

/// A peer that sends fixed bytes, whatever it receives.
struct Says(Cursor<Vec<u8>>);

impl Read for Says {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.0.read(buf)
    }
}

impl Write for Says {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        Ok(buf.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn no_read_byte_is_lost_and_no_later_byte_is_read() {
    let mut says = plain().to_bytes();
    says.extend_from_slice(b"and on");
    let mut stream = Unbounded(Says(Cursor::new(says)));
    assert_eq!(exchange(&mut stream, &lengthy(5), long()).unwrap(), plain());
    let mut rest = String::new();
    stream.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "and on");

    let mut stream = Unbounded(Says(Cursor::new(b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec())));
    let error = exchange(&mut stream, &plain(), long()).unwrap_err();
    let (mut all, at) = (error.received().to_vec(), stream.0.0.position());
    stream.read_to_end(&mut all).unwrap();
    assert!(all.starts_with(b"HTTP/1.1 400 Bad Request\r\n\r\n"), "after {at}: {all:?}");
    let text = "the peer sent an invalid endpoint: expected an endpoint, which starts with \"pvep\", \
                got \"HTTP\"";
    assert_eq!(error.to_string(), text);

    let mut stream = Unbounded(Says(Cursor::new(plain().to_bytes()[..30].to_vec())));
    let error = exchange(&mut stream, &plain(), long()).unwrap_err();
    assert_eq!(error.to_string(), "the peer closed the stream after 30 of 56 bytes");
    assert_eq!(error.received(), &plain().to_bytes()[..30]);
}

/// A stream without timeouts is used as it is.
#[test]
fn a_stream_without_time_outs_is_used_directly() {
    struct Counts(Vec<&'static str>);
    impl Read for Counts {
        fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
            self.0.push("read");
            Ok(buf.len().min(2))
        }
    }
    impl Write for Counts {
        fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
            self.0.push("write");
            Ok(buf.len().min(3))
        }
        fn flush(&mut self) -> io::Result<()> {
            self.0.push("flush");
            Err(io::ErrorKind::BrokenPipe.into())
        }
    }
    let mut stream = Unbounded(Counts(Vec::new()));
    assert_eq!(stream.read(&mut [0; 4]).unwrap(), 2);
    assert_eq!(stream.write(&[0; 4]).unwrap(), 3);
    assert_eq!(stream.flush().unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    assert_eq!(stream.0.0, ["read", "write", "flush"]);
    assert_eq!(stream.timeouts().unwrap(), Timeouts::default());
    stream.set_timeouts(Timeouts { read: Some(long()), write: None }).unwrap();
}

#[test]
fn valid_queue_pair_numbers() {
    let last = Qpn::MAX.get();
    for (number, may) in [(0, false), (1, false), (2, true), (last - 1, true), (last, false)] {
        let qpn = Qpn::new(number).unwrap();
        let endpoint = Endpoint::new(plain().service(), qpn, Psn::new(1).unwrap(), Mtu::Bytes256);
        let expected = if may { None } else { Some(WireError::ReservedQpn(qpn)) };
        assert_eq!(endpoint.err(), expected, "{number}");
    }
}

/// A stream that accepts no bytes: the exchange fails, whatever the peer sends.
#[test]
fn a_stream_that_accepts_nothing_is_a_failure() {
    struct Mute(Cursor<Vec<u8>>);
    impl Read for Mute {
        fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
            self.0.read(buf)
        }
    }
    impl Write for Mute {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::BrokenPipe.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut stream = Unbounded(Mute(Cursor::new(plain().to_bytes())));
    let error = exchange(&mut stream, &plain(), long()).unwrap_err();
    let ExchangeError::Io { error, received } = error else { panic!("{error}") };
    assert_eq!((error.kind(), received.len()), (io::ErrorKind::BrokenPipe, 0));
}

#[test]
fn a_claimed_length_allocates_nothing() {
    let mut wire = plain().to_bytes();
    wire[6..12].copy_from_slice(&[255, 255, 0, 0xff, 0xff, 0xff]);
    let error = exchange(&mut Unbounded(Says(Cursor::new(wire))), &plain(), long()).unwrap_err();
    assert!(error.to_string().ends_with("65535 regions exceed 1024"), "{error}");
}

#[path = "endpoint/slow.rs"]
mod slow;

#[cfg(feature = "serde")]
mod serde {
    use super::*;

    #[test]
    fn every_endpoint_survives_json() {
        check(endpoint(), |endpoint| {
            let text = serde_json::to_string(&endpoint).unwrap();
            prop_assert_eq!(serde_json::from_str::<Endpoint>(&text).unwrap(), endpoint);
            Ok(())
        });
    }

    #[test]
    fn json_is_checked_like_bytes() {
        let mut endpoint =
            plain().with_gid(Gid([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 10, 9, 0, 1]));
        export(&mut endpoint, 0, 0x1000, 16, 1);
        let text = serde_json::to_string(&endpoint).unwrap();
        assert_eq!(
            text,
            r#"{"service":{"rc":{"initiator":1,"responder":4}},"qpn":28,"psn":1133483,"mtu":1024,"gid":"::ffff:10.9.0.1","gid_kind":null,"lid":0,"send_depth":0,"recv_depth":0,"regions":[{"addr":4096,"len":16,"rkey":1,"read":true,"write":false,"atomic":false}]}"#
        );
        for (from, to, why) in [
            (
                "\"qpn\":28",
                "\"qpn\":1",
                "queue pair number 0x1 is reserved for management or multicast",
            ),
            ("\"psn\":1133483", "\"psn\":16777216", "PSN 16777216 exceeds 16777215"),
            (
                "\"mtu\":1024",
                "\"mtu\":1500",
                "unknown path MTU 1500; expected a code from 1 to 5, or 256 to 4096 bytes",
            ),
            ("\"initiator\":1", "\"initiator\":129", "max_rd_atomic 129 exceeds 128"),
            ("\"len\":16", "\"len\":0", "region 0: it is empty"),
            ("\"read\":true", "\"read\":false", "region 0: it grants no remote right"),
            ("\"lid\":0", "\"lid\":0,\"port\":1", "unknown field `port`"),
        ] {
            assert!(text.contains(from));
            let error = serde_json::from_str::<Endpoint>(&text.replace(from, to)).unwrap_err();
            assert!(error.to_string().contains(why), "{error}");
        }
    }

    /// Reading stops at the largest number of regions, even if the peer continues.
    ///
    /// Serde stops at the largest number of regions that an endpoint may have.
    #[test]
    fn json_is_not_read_beyond_the_largest_number_of_regions() {
        struct Endless {
            begin: &'static [u8],
            read: usize,
        }

        impl Read for Endless {
            fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
                let region =
                    br#"{"addr":4096,"len":16,"rkey":1,"read":true,"write":false,"atomic":false},"#;
                if self.begin.is_empty() {
                    out[0] = region[self.read % region.len()];
                    self.read += 1;
                    assert!(
                        self.read < (Endpoint::MAX_REGIONS + 2) * region.len(),
                        "it continues to read"
                    );
                    return Ok(1);
                }
                self.begin.read(out)
            }
        }

        let begin = br#"{"service":"uc","qpn":28,"psn":1,"mtu":1024,"gid":"::1","lid":0,"send_depth":0,"recv_depth":0,"regions":["#;
        let error = serde_json::from_reader::<_, Endpoint>(Endless { begin, read: 0 }).unwrap_err();
        let most = WireError::TooManyRegions { count: Endpoint::MAX_REGIONS + 1 };
        assert!(error.to_string().contains(&most.to_string()), "{error}");
    }
}

/// A handshake in two steps makes the connector twice, in place or not: it connects with the
/// offered parameters, whatever was set later.
#[test]
fn a_connector_that_is_made_again_offers_the_same() {
    use proverbs::endpoint::RcConnector;
    use proverbs::loopback::Fabric;
    use proverbs::qp::AnyQueuePair;
    use proverbs::state::Init;
    use proverbs::transport::Rc;

    let context = Fabric::new().open_device();
    let (pd, mut cq) = (context.alloc_pd().unwrap(), context.create_cq(64).unwrap());
    let region = pd.register::<RemoteReadWrite>(64).unwrap();
    let pool = pd.create_pool(4, 64).unwrap();
    let init = ConnectedInit { pkey_index: 0, port: 1, access: QpAccess::all() };
    let depth = Depth { send: 4, recv: 4 };
    let new = || -> QueuePair<Rc, Init> {
        let qp = pd.create_qp::<Rc, DefaultProfile>(&cq, &cq, depth).unwrap();
        qp.modify(init).unwrap()
    };
    let (mut a, mut b) = (AnyQueuePair::from(new()), AnyQueuePair::from(new()));
    let typed = new();
    let mut offers = Vec::new();
    for round in 0..2 {
        let mut first = RcConnector::in_place(&mut a, Some(1)).unwrap();
        first.set_responder_depth(ResponderDepth::new(4).unwrap());
        first.set_mtu(Mtu::Bytes512);
        if round == 1 {
            first.set_psn(Psn::new(7).unwrap());
        }
        let offer = first.endpoint().clone();
        let conn = RcConnector::in_place(&mut b, Some(1)).unwrap();
        let answer = conn.endpoint().clone();
        conn.connect_in_place_to(&offer).unwrap();
        // Later, with only the queue pair kept.
        let again = RcConnector::in_place(&mut a, Some(1)).unwrap();
        assert_eq!(*again.endpoint(), offer);
        again.connect_in_place_to(&answer).unwrap();
        let qp = a.as_state::<proverbs::state::Rts>().unwrap();
        assert_eq!(qp.query().unwrap().max_dest_rd_atomic, 4);
        let to = region.remote();
        qp.post_send(wr::RdmaWrite::inline(b"in order", to.slice(0, 8).unwrap().write())).unwrap();
        let into = pool.take().unwrap();
        let qp = b.as_state::<proverbs::state::Rts>().unwrap();
        qp.post_send(wr::RdmaRead::new(into, to.slice(0, 8).unwrap().read())).unwrap();
        let mut done = 0;
        while done < 2 {
            for completion in cq.poll().unwrap() {
                completion.status().unwrap();
                done += 1;
            }
        }
        offers.push(offer.psn());
        a.reset().unwrap();
        b.reset().unwrap();
        a.modify(init).unwrap();
        b.modify(init).unwrap();
        // A new connection has new numbers.
        assert_ne!(RcConnector::in_place(&mut a, Some(1)).unwrap().endpoint().psn(), offer.psn());
        a.reset().unwrap();
        a.modify(init).unwrap();
    }
    let typed = RcConnector::new(typed, Some(1)).unwrap();
    let offer = typed.endpoint().clone();
    let again = RcConnector::new(typed.into_qp(), Some(1)).unwrap();
    assert_eq!(*again.endpoint(), offer);
}
