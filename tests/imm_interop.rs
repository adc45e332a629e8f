//! The part of a message besides its data, exchanged between this crate and C: immediates in host
//! byte order here, in network byte order on the wire and in C; and the window key that a message
//! invalidates.
//!
//! `cargo xtask test interop` builds the C peer and runs this against it.
#![forbid(unsafe_code)]

#[path = "patience/mod.rs"]
mod patience;

use std::env;
use std::io::{BufRead, BufReader, Lines, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Instant;

use proverbs::bounded::{MinRnrTimer, ResponderDepth, RetryCount, RnrRetry, Timeout};
use proverbs::completion::{Received, WcError, WcOpcode};
use proverbs::device::Gid;
use proverbs::prelude::*;
use proverbs::qp::{RcRtsOptional, RtrOptional};

use patience::long;

const SEND_IMM: u32 = 0x0102_0304;
const WRITE_IMM: u32 = 0xa0b0_c0d0;

struct Peer {
    child: Child,
    to: ChildStdin,
    from: Lines<BufReader<ChildStdout>>,
}

impl Peer {
    fn start(device: &str, gid_index: &str) -> Peer {
        let path = env::var("PROVERBS_IMM_PEER").expect("PROVERBS_IMM_PEER must name the C peer");
        let mut child = Command::new(path)
            .args([device, gid_index])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the C peer runs");
        let to = child.stdin.take().unwrap();
        let from = BufReader::new(child.stdout.take().unwrap()).lines();
        Peer { child, to, from }
    }

    fn tell(&mut self, line: &str) {
        writeln!(self.to, "{line}").unwrap();
        self.to.flush().unwrap();
    }

    fn hear(&mut self) -> String {
        self.from.next().expect("the C peer prints a line").unwrap()
    }
}

/// The entry and result of the next completion, whatever it is.
fn next(cq: &mut CompletionQueue) -> Received<Buf> {
    let started = Instant::now();
    loop {
        match cq.poll_one().unwrap().map(Completion::outcome) {
            Some(Outcome::Received(received)) => return received,
            Some(Outcome::Sent(_)) => {}
            Some(Outcome::Failed(failed)) => panic!("{failed:?}"),
            Some(_) => panic!("an outcome of another kind"),
            None => assert!(started.elapsed() < long(), "nothing came"),
        }
        std::thread::yield_now();
    }
}

/// The next completion, which must be a failure.
fn failure(cq: &mut CompletionQueue) -> WcError {
    let started = Instant::now();
    loop {
        match cq.poll_one().unwrap().map(Completion::outcome) {
            Some(Outcome::Failed(failed)) => return failed.error,
            Some(_) => {}
            None => assert!(started.elapsed() < long(), "nothing failed"),
        }
        std::thread::yield_now();
    }
}

#[test]
#[ignore = "needs a device and the C peer: cargo xtask test interop"]
fn immediates_have_one_byte_order() {
    let device = env::var("PROVERBS_DEVICE").expect("PROVERBS_DEVICE must name a device");
    let index = env::var("PROVERBS_GID_INDEX").unwrap_or_else(|_| "0".into());
    let gid_index = index.parse().unwrap();
    let ctx = Context::open(&device).unwrap();
    let gid = ctx.query_gid(1, gid_index).unwrap();
    let pd = ctx.alloc_pd().unwrap();
    let mut cq = ctx.create_cq(20).unwrap();
    let pool = pd.create_pool(4, 64).unwrap();
    let region = pd.register::<RemoteWrite>(64).unwrap();
    let qp = pd.create_qp::<Rc, DefaultProfile>(&cq, &cq, Depth { send: 4, recv: 4 }).unwrap();

    let mut peer = Peer::start(&device, &index);
    let line = peer.hear();
    let fields: Vec<&str> = line.split(' ').collect();
    let number = |i: usize| u64::from_str_radix(fields[i], 16).unwrap();
    let theirs = RemoteSlice::<RemoteWrite>::from_parts(number(2), 64, number(3) as u32);
    let their_gid = Gid(u128::from_str_radix(fields[1], 16).unwrap().to_be_bytes());
    let ours = region.remote().to_bytes();
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    peer.tell(&format!(
        "{:x} {} {} {}",
        qp.qp_num(),
        hex(&gid.0),
        hex(&ours[..8]),
        hex(&ours[16..20])
    ));

    let access = QpAccess::REMOTE_WRITE;
    let mut qp = qp.modify(ConnectedInit { pkey_index: 0, port: 1, access }).unwrap();
    qp.post_recv(wr::Recv::new(pool.take().unwrap())).unwrap();
    qp.post_recv(wr::Recv::new(pool.take().unwrap())).unwrap();
    let rtr = RcRtr {
        address: AddressVector::roce(1, their_gid, gid_index),
        path_mtu: Mtu::Bytes1024,
        dest_qpn: Qpn::new(number(0) as u32).unwrap(),
        rq_psn: Psn::new(0).unwrap(),
        max_dest_rd_atomic: ResponderDepth::new(1).unwrap(),
        min_rnr_timer: MinRnrTimer::new(12).unwrap(),
        optional: RtrOptional::default(),
    };
    let rts = RcRts {
        // Long enough that a busy machine is not taken for a lost peer: the two processes lose
        // nothing.
        timeout: Timeout::exponent(18).unwrap(),
        retry_cnt: RetryCount::new(6).unwrap(),
        rnr_retry: RnrRetry::Infinite,
        sq_psn: Psn::new(0).unwrap(),
        max_rd_atomic: ReadDepth::ONE,
        optional: RcRtsOptional::default(),
    };
    let mut qp = qp.modify(rtr).unwrap().modify(rts).unwrap();
    assert_eq!(peer.hear(), "ready");
    peer.tell("ready");

    post_send!(
        qp,
        [
            wr::SendWithImm::inline(b"rust to c", SEND_IMM),
            wr::RdmaWriteWithImm::inline(b"rust to ", theirs.write(), WRITE_IMM),
        ]
    )
    .unwrap();
    let got = next(&mut cq);
    assert_eq!((got.opcode, got.imm_data), (WcOpcode::Recv, Some(SEND_IMM)));
    assert_eq!(got.data(), b"c to rus");
    let got = next(&mut cq);
    assert_eq!((got.opcode, got.imm_data), (WcOpcode::RecvRdmaWithImm, Some(WRITE_IMM)));
    let mut bytes = [0; 8];
    region.read_at(0, &mut bytes).unwrap();
    assert_eq!(&bytes, b"c to rus");

    let line = peer.hear();
    let key = line.strip_prefix("window ").expect("the C peer opens a window");
    let (start, len) = (number(2), 64);
    let key = u32::from_str_radix(key, 16).unwrap();
    let window = RemoteSlice::<RemoteWrite>::from_parts(start, len, key);
    post_send!(
        qp,
        [
            wr::RdmaWrite::inline(b"windowed", window.write()),
            ext::windows::SendWithInv::inline(
                b"done with it",
                proverbs::ext::windows::Revocable::new(window)
            ),
        ]
    )
    .unwrap();
    assert_eq!(peer.hear(), "invalidated");
    qp.post_send(wr::RdmaWrite::inline(b"once more", window.write())).unwrap();
    let error = failure(&mut cq);
    assert_eq!(error.status, WcStatus::RemAccess, "the key was invalidated (R1.6)");
    peer.tell("bye");
    assert!(peer.child.wait().unwrap().success());
}
