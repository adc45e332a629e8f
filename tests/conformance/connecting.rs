//! Connecting over a stream, from tokio and from another library: in pieces, in alternation, with
//! each call failing once, and with peers that hang up, refuse, or send an invalid endpoint.

use std::future::Future;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::pin::{Pin, pin};
use std::sync::mpsc;
use std::task::{Context as Task, Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};

use proverbs::endpoint::*;
use proverbs::prelude::*;
use proverbs::qp::AnyQueuePair;
use proverbs::state::{Init, QpState};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::support::*;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Op {
    Read,
    Write,
    Flush,
}

/// A stream to a peer that sends prepared bytes.
struct Peer {
    says: Vec<u8>,
    read: usize,
    /// The length of its endpoint and of ours. It sends a chunk for each chunk of ours that it
    /// received. The bytes after its endpoint follow when it received that many after ours.
    ends: [usize; 2],
    /// The bytes it received, and how many of them were flushed.
    told: Vec<u8>,
    flushed: usize,
    /// The most bytes of a read or a write.
    piece: usize,
    /// Whether each call is pending first.
    is_slow: bool,
    was_pending: bool,
    /// Whether it hangs up after its last byte; otherwise it stays silent.
    hangs_up: bool,
    /// It accepts no more than this many bytes.
    takes: usize,
    /// The call that fails, once, after this many calls of its kind.
    fails: Option<(Op, usize)>,
    calls: [usize; 3],
    /// The numbers of bytes read and written when it failed.
    failed: Option<(usize, usize)>,
}

impl Peer {
    /// A peer with its own endpoint, followed by these bytes.
    fn new(mine: &Endpoint, theirs: &Endpoint, last: &[u8]) -> Peer {
        let mut says = theirs.to_bytes();
        let ends = [says.len(), mine.to_bytes().len()];
        says.extend(last);
        Peer {
            says,
            read: 0,
            ends,
            told: Vec::new(),
            flushed: 0,
            piece: usize::MAX,
            is_slow: false,
            was_pending: false,
            hangs_up: false,
            takes: usize::MAX,
            fails: None,
            calls: [0; 3],
            failed: None,
        }
    }

    /// The number of bytes that it has sent by now.
    fn said(&self) -> usize {
        let [end, mine] = self.ends;
        let beyond = self.flushed.saturating_sub(mine);
        if beyond >= 4 {
            return self.says.len();
        }
        // A chunk for each chunk received; the rest after all were received.
        let heard = if self.flushed >= mine { usize::MAX } else { self.flushed / CHUNK * CHUNK };
        self.says.len().min(end.min(heard))
    }

    /// Counts a call, which may fail or be pending.
    fn call(&mut self, op: Op, task: &mut Task<'_>) -> Poll<io::Result<()>> {
        self.was_pending = self.is_slow && !self.was_pending;
        if self.was_pending {
            task.waker().wake_by_ref();
            return Poll::Pending;
        }
        let call = self.calls[op as usize];
        self.calls[op as usize] += 1;
        if self.fails == Some((op, call)) {
            self.failed = Some((self.read, self.told.len()));
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        Poll::Ready(Ok(()))
    }
}

/// A blocking version of the same stream. It is interrupted where the other one is pending.
struct Blocking<'a> {
    peer: &'a mut Peer,
    /// Its current timeouts.
    timeouts: std::cell::Cell<Timeouts>,
}

/// The timeouts that the program had set.
const OWN: Timeouts = Timeouts { read: Some(Duration::from_secs(7)), write: None };

impl Blocking<'_> {
    fn now<R>(
        &mut self,
        poll: impl FnOnce(Pin<&mut Peer>, &mut Task<'_>) -> Poll<R>,
    ) -> io::Result<R> {
        let Timeouts { read, write } = self.timeouts.get();
        assert!(read.is_some_and(|time| time <= long()) && read == write, "{read:?} {write:?}");
        let mut task = Task::from_waker(Waker::noop());
        match poll(Pin::new(&mut *self.peer), &mut task) {
            Poll::Ready(done) => Ok(done),
            Poll::Pending if self.peer.was_pending => Err(io::ErrorKind::Interrupted.into()),
            // It would stay silent forever.
            Poll::Pending => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}

impl io::Read for Blocking<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let mut buf = ReadBuf::new(bytes);
        self.now(|peer, task| peer.poll_read(task, &mut buf))??;
        Ok(buf.filled().len())
    }
}

impl io::Write for Blocking<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.now(|peer, task| peer.poll_write(task, bytes))?
    }

    fn flush(&mut self) -> io::Result<()> {
        self.now(|peer, task| peer.poll_flush(task))?
    }
}

impl Timed for Blocking<'_> {
    fn timeouts(&self) -> io::Result<Timeouts> {
        Ok(self.timeouts.get())
    }

    fn set_timeouts(&self, timeouts: Timeouts) -> io::Result<()> {
        self.timeouts.set(timeouts);
        Ok(())
    }
}

/// The way in which a side connects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct How {
    is_awaited: bool,
    /// The queue pair stays in a field.
    is_in_place: bool,
}

const ALL: [How; 4] = [
    How { is_awaited: true, is_in_place: false },
    How { is_awaited: false, is_in_place: false },
    How { is_awaited: true, is_in_place: true },
    How { is_awaited: false, is_in_place: true },
];

impl How {
    #[allow(clippy::result_large_err)] // the crate returns the error with its object
    fn connect(
        self,
        ground: &Ground,
        connector: RcConnector<DefaultProfile>,
        peer: &mut Peer,
    ) -> Connected {
        let mut stream = Blocking { peer, timeouts: std::cell::Cell::new(OWN) };
        let connected = match (self.is_in_place, self.is_awaited) {
            (true, _) => self.connect_in_place(ground, connector, &mut stream),
            (false, true) => run(connector.connect_async(stream.peer)).map_err(Refused::into_parts),
            (false, false) => connector.connect(&mut stream, long()).map_err(Refused::into_parts),
        };
        assert_eq!(stream.timeouts.get(), OWN, "the timeouts of the program are restored");
        connected
    }

    /// The same settings, with the queue pair taken out of its field afterwards.
    #[allow(clippy::result_large_err)] // the crate returns the error with its object
    fn connect_in_place(
        self,
        ground: &Ground,
        connector: RcConnector<DefaultProfile>,
        stream: &mut Blocking<'_>,
    ) -> Connected {
        let mine = connector.endpoint().clone();
        let mut field = AnyQueuePair::from(connector.into_qp());
        let mut connector = RcConnector::in_place(&mut field, Some(ground.dev.gid_index)).unwrap();
        connector.set_psn(mine.psn());
        for i in 0..mine.regions().len() {
            connector.export(mine.region::<RemoteRead>(i).unwrap()).unwrap();
        }
        assert_eq!(connector.endpoint(), &mine);
        let connected = match self.is_awaited {
            true => run(connector.connect_in_place_async(stream.peer)),
            false => connector.connect_in_place(stream, long()),
        };
        match (connected, field) {
            (Ok(peer), AnyQueuePair::Rts(qp)) => Ok((qp, peer)),
            (Err(error), AnyQueuePair::Init(qp)) => Err((Stage::Init(qp), error)),
            (Err(error), AnyQueuePair::Rtr(qp)) => Err((Stage::Rtr(qp), error)),
            (Err(error), AnyQueuePair::Rts(qp)) => Err((Stage::Rts(qp), error)),
            (connected, field) => panic!("{connected:?} in {}", field.state()),
        }
    }
}

impl AsyncRead for Peer {
    fn poll_read(
        self: Pin<&mut Self>,
        task: &mut Task<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        assert!(buf.remaining() > 0 && buf.filled().is_empty());
        let said = this.said();
        if this.read == said && !(this.hangs_up && said == this.says.len()) {
            return Poll::Pending; // it receives nothing more from here on
        }
        std::task::ready!(this.call(Op::Read, task))?;
        let count = (said - this.read).min(buf.remaining()).min(this.piece);
        buf.put_slice(&this.says[this.read..][..count]);
        this.read += count;
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Peer {
    fn poll_write(
        self: Pin<&mut Self>,
        task: &mut Task<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        assert!(!buf.is_empty() && buf.len() <= CHUNK);
        if this.told.len() >= this.takes {
            return Poll::Pending;
        }
        // Alternating: it receives the next chunk after its reply to the previous ones was read.
        let chunks = this.told.len() / CHUNK * CHUNK;
        assert!(this.told.len() >= this.ends[1] || this.read >= chunks.min(this.ends[0]));
        std::task::ready!(this.call(Op::Write, task))?;
        let count = buf.len().min(this.piece);
        this.told.extend(&buf[..count]);
        Poll::Ready(Ok(count))
    }

    fn poll_flush(self: Pin<&mut Self>, task: &mut Task<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        std::task::ready!(this.call(Op::Flush, task))?;
        this.flushed = this.told.len();
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Task<'_>) -> Poll<io::Result<()>> {
        unreachable!("the stream still belongs to the program")
    }
}

/// Polls a future until it is ready.
fn run<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    for _ in 0..200_000 {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Task::from_waker(Waker::noop())) {
            return output;
        }
    }
    panic!("the future waits for an event that never comes");
}

struct Ground {
    pd: ProtectionDomain,
    dev: Device,
}

impl Ground {
    fn new() -> Ground {
        let dev = Device::open();
        let pd = dev.ctx.alloc_pd().unwrap();
        Ground { pd, dev }
    }

    fn queue_pair(&self) -> QueuePair<Rc, Init> {
        let depth = Depth { send: 1, recv: 1 };
        let cq = self.dev.ctx.create_cq(4).unwrap();
        let qp = self.pd.create_qp::<Rc, DefaultProfile>(&cq, &cq, depth).unwrap();
        let init = ConnectedInit { pkey_index: 0, port: 1, access: QpAccess::all() };
        qp.modify(init).unwrap()
    }

    /// A connector that sends this many regions.
    fn connector(&self, regions: usize) -> RcConnector<DefaultProfile> {
        let mut connector = RcConnector::new(self.queue_pair(), Some(self.dev.gid_index)).unwrap();
        let region = RemoteSlice::<RemoteRead>::from_parts(4096, 8, 7);
        for _ in 0..regions {
            connector.export(region).unwrap();
        }
        connector
    }
}

type Connected = Result<(QueuePair<Rc, Rts>, Endpoint), (Stage<DefaultProfile>, ConnectError)>;

/// The state of the returned queue pair, and the error.
fn refused(connected: Connected) -> (QpState, ConnectError) {
    let (stage, error) = connected.map(|(_, peer)| peer).unwrap_err();
    let state = match stage {
        Stage::Init(qp) => qp.query().unwrap().state,
        Stage::Rtr(qp) => qp.query().unwrap().state,
        Stage::Rts(qp) => qp.query().unwrap().state,
    };
    (state.unwrap(), error)
}

#[test]
fn a_connection_is_made_in_pieces_and_in_alternation() {
    fails_on!(Iwarp, "R24.5");
    let ground = Ground::new();
    let other = ground.connector(0);
    for (mine, theirs) in [(0, 0), (0, 120), (120, 0), (120, 120), (300, 100)] {
        let mut to = other.endpoint().clone();
        for _ in 0..theirs {
            to.export(RemoteSlice::<RemoteWrite>::from_parts(64, 4, 3)).unwrap();
        }
        let pieces = [(1, false), (7, true), (CHUNK, false), (usize::MAX, true)];
        for ((piece, is_slow), how) in pieces.into_iter().flat_map(|one| ALL.map(|how| (one, how)))
        {
            let connector = ground.connector(mine);
            let endpoint = connector.endpoint().clone();
            let mut peer = Peer::new(&endpoint, &to, b"pvok, and more");
            (peer.piece, peer.is_slow) = (piece, is_slow);
            let (qp, heard) = how.connect(&ground, connector, &mut peer).unwrap();
            assert_eq!((qp.query().unwrap().state, &heard), (Some(QpState::Rts), &to));
            let mut all = endpoint.to_bytes();
            all.extend(b"pvok");
            assert!(peer.told == all && peer.flushed == all.len(), "{mine} {theirs} {piece}");
            assert_eq!(peer.says.len() - peer.read, 10, "no byte after the endpoint is read");
        }
    }
}

/// Each call fails once. The error has the bytes read, the queue pair comes back in its state, and
/// the peer receives the refusal if it still reads.
#[test]
fn each_stream_failure_returns_the_queue_pair() {
    fails_on!(Iwarp, "R24.5");
    let ground = Ground::new();
    let theirs = ground.connector(60);
    let mut failures = [0; 3];
    let ops = [Op::Read, Op::Write, Op::Flush];
    for (op, how) in ops.into_iter().flat_map(|op| ALL.map(|how| (op, how))) {
        for call in 0.. {
            let connector = ground.connector(60);
            let mine = connector.endpoint().to_bytes();
            let mut peer = Peer::new(connector.endpoint(), theirs.endpoint(), b"pvok");
            (peer.fails, peer.piece) = (Some((op, call)), 600);
            if call % 2 == 1 {
                peer.piece = 3;
            }
            let connected = how.connect(&ground, connector, &mut peer);
            let Some((read, told)) = peer.failed else {
                connected.unwrap();
                break;
            };
            failures[op as usize] += 1;
            let end = peer.ends[0];
            let is_last = told > mine.len() || op == Op::Write && told == mine.len();
            let (state, error) = refused(connected);
            assert_eq!(state, if is_last { QpState::Rts } else { QpState::Init }, "{op:?} {call}");
            let ConnectError::Exchange(ExchangeError::Io { error, received }) = error else {
                panic!("{op:?} {call}: {error:?}");
            };
            assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
            let heard = match (is_last, op) {
                (false, _) => &peer.says[..read],
                (true, Op::Read) => &peer.says[end..read],
                (true, _) => &[],
            };
            assert!(received == heard, "{op:?} {call}: {} of {read}", received.len());
            let last: &[u8] = if !is_last && told == mine.len() { b"pvno" } else { b"" };
            // With await, it sends as much as the stream accepts at once.
            let most = if how.is_awaited { peer.piece } else { last.len() };
            assert_eq!(peer.told[told..], last[..last.len().min(most)], "{op:?} {call}");
            assert!(last.is_empty() || peer.flushed == peer.told.len(), "{op:?} {call}");
            if call > 700 {
                panic!("{op:?} never ends");
            }
        }
    }
    assert!(failures.iter().all(|&count| count > 2), "{failures:?}");
}

#[test]
fn the_error_has_the_bytes_of_a_peer_that_hangs_up() {
    fails_on!(Iwarp, "R24.5");
    let ground = Ground::new();
    let theirs = ground.connector(1);
    let all = theirs.endpoint().to_bytes().len() + 4;
    for (len, how) in (0..all).flat_map(|len| ALL.map(|how| (len, how))) {
        let connector = ground.connector(0);
        let mut peer = Peer::new(connector.endpoint(), theirs.endpoint(), b"pvok");
        let [end, mine] = peer.ends;
        peer.says.truncate(len);
        peer.hangs_up = true;
        let (state, error) = refused(how.connect(&ground, connector, &mut peer));
        let ConnectError::Exchange(ExchangeError::HungUp { needed, received }) = error else {
            panic!("{len}: {error:?}");
        };
        if len < end {
            assert_eq!(
                (state, needed >= len, &received[..]),
                (QpState::Init, true, &peer.says[..])
            );
            assert_eq!(peer.told[mine..], *b"pvno", "{len}");
            assert_eq!(peer.flushed, mine + 4);
        } else {
            assert_eq!((state, needed, &received[..]), (QpState::Rts, 4, &peer.says[end..]));
            assert_eq!(peer.told[mine..], *b"pvok", "{len}");
        }
    }
}

#[test]
fn a_peer_that_refuses_or_sends_garbage() {
    fails_on!(Iwarp, "R24.5");
    let ground = Ground::new();
    let theirs = ground.connector(0);
    let say = |last: &[u8], how: How| {
        let connector = ground.connector(0);
        let mut peer = Peer::new(connector.endpoint(), theirs.endpoint(), last);
        peer.piece = 3;
        refused(how.connect(&ground, connector, &mut peer))
    };
    for how in ALL {
        assert!(matches!(say(b"pvno", how), (QpState::Rts, ConnectError::PeerRefused)));
        let (state, error) = say(b"what", how);
        assert!(matches!(error, ConnectError::NoVerdict(word) if word == *b"what"), "{error:?}");
        assert_eq!(state, QpState::Rts);
    }
}

/// The peer receives the refusal if its stream accepts the bytes at once; connecting does not wait
/// for that.
#[test]
fn the_peer_receives_a_refusal() {
    fails_on!(Iwarp, "R24.5");
    let ground = Ground::new();
    let theirs = ground.connector(0);
    let (qpn, psn) = (Qpn::new(17).unwrap(), Psn::new(0).unwrap());
    let uc = Endpoint::new(Service::UnreliableConnection, qpn, psn, Mtu::Bytes1024).unwrap();
    let ways = [(usize::MAX, true), (0, true), (usize::MAX, false), (0, false)];
    for ((takes, is_uc), how) in ways.into_iter().flat_map(|one| ALL.map(|how| (one, how))) {
        let connector = ground.connector(0);
        let to = if is_uc { &uc } else { theirs.endpoint() };
        let mut peer = Peer::new(connector.endpoint(), to, b"pvok");
        if !is_uc {
            peer.says[0] ^= 1;
        }
        let mine = peer.ends[1];
        peer.takes = takes.max(mine);
        let (state, error) = refused(how.connect(&ground, connector, &mut peer));
        assert_eq!(state, QpState::Init);
        if is_uc {
            assert!(matches!(error, ConnectError::NotRc(_)), "{error:?}");
        } else {
            let ConnectError::Exchange(ExchangeError::Malformed { received, .. }) = error else {
                panic!("{error:?}");
            };
            assert_eq!(received, peer.says[..received.len()]);
        }
        let told: &[u8] = if takes == 0 { b"" } else { b"pvno" };
        assert_eq!((&peer.told[mine..], peer.flushed), (told, peer.told.len()));
    }
}

/// A stream that accepts no bytes has failed, and a stream that claims too many is not trusted.
#[test]
fn a_stream_that_miscounts_its_writes() {
    fails_on!(Iwarp, "R24.5");
    struct Claims(Peer, bool);
    impl AsyncRead for Claims {
        fn poll_read(
            self: Pin<&mut Self>,
            task: &mut Task<'_>,
            buf: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            Pin::new(&mut self.get_mut().0).poll_read(task, buf)
        }
    }
    impl AsyncWrite for Claims {
        fn poll_write(
            self: Pin<&mut Self>,
            task: &mut Task<'_>,
            buf: &[u8],
        ) -> Poll<io::Result<usize>> {
            let Claims(peer, all) = self.get_mut();
            if !*all {
                return Poll::Ready(Ok(0));
            }
            std::task::ready!(Pin::new(peer).poll_write(task, buf))?;
            Poll::Ready(Ok(usize::MAX))
        }
        fn poll_flush(self: Pin<&mut Self>, task: &mut Task<'_>) -> Poll<io::Result<()>> {
            Pin::new(&mut self.get_mut().0).poll_flush(task)
        }
        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Task<'_>) -> Poll<io::Result<()>> {
            unreachable!("the stream still belongs to the program")
        }
    }
    let ground = Ground::new();
    let theirs = ground.connector(120);
    for claims_all in [true, false] {
        let connector = ground.connector(120);
        let peer = Peer::new(connector.endpoint(), theirs.endpoint(), b"pvok");
        let mut claims = Claims(peer, claims_all);
        let connected = run(connector.connect_async(&mut claims)).map_err(Refused::into_parts);
        if claims_all {
            let (qp, heard) = connected.unwrap();
            assert_eq!(
                (heard.qpn(), qp.query().unwrap().state),
                (theirs.endpoint().qpn(), Some(QpState::Rts))
            );
            continue;
        }
        let (state, error) = refused(connected);
        let ConnectError::Exchange(ExchangeError::Io { error, received }) = error else {
            panic!("{error:?}");
        };
        assert_eq!((state, error.kind()), (QpState::Init, io::ErrorKind::WriteZero));
        assert!(received.is_empty() && claims.0.flushed == 0);
    }
}

/// Two sides await each other in one task. When one reads, the other's last word already follows
/// its endpoint, and is left for later.
#[test]
fn two_sides_in_one_task() {
    fails_on!(Iwarp, "R24.5");
    crate::waits::ends("two sides that await each other", || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let ground = Ground::new();
            let (a, b) = (ground.connector(120), ground.connector(120));
            let (mut here, mut there) = tokio::net::UnixStream::pair().unwrap();
            let both =
                async { tokio::join!(a.connect_async(&mut here), b.connect_async(&mut there)) };
            let (a, b) = both.await;
            let ((a, of_b), (b, of_a)) = (a.unwrap(), b.unwrap());
            assert_eq!((of_a.qpn().get(), of_b.qpn().get()), (a.qp_num(), b.qp_num()));
        });
    });
}

/// A short timeout, for sockets.
const SHORT: Duration = Duration::from_millis(30);

impl How {
    /// Connects a queue pair in a field, within `time`, over the socket. Returns the error, and the
    /// field afterwards. `None` if the timeout around it fired.
    fn fails(
        self,
        ground: &Ground,
        field: &mut Option<QueuePair<Rc, Init>>,
        mut here: UnixStream,
        time: Duration,
    ) -> Option<ConnectError> {
        let gid_index = Some(ground.dev.gid_index);
        let qp = field.take().unwrap();
        if !self.is_in_place && !self.is_awaited {
            let connector = RcConnector::new(qp, gid_index).unwrap();
            let (stage, error) = connector.connect(&mut here, time).unwrap_err().into_parts();
            let Stage::Init(qp) = stage else { panic!("{stage:?}") };
            *field = Some(qp);
            return Some(error);
        }
        let mut any = AnyQueuePair::from(qp);
        let connected = match self.is_awaited {
            false => Some(
                RcConnector::in_place(&mut any, gid_index)
                    .unwrap()
                    .connect_in_place(&mut here, time)
                    .unwrap_err(),
            ),
            true => tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap()
                .block_on(async {
                    here.set_nonblocking(true).unwrap();
                    let mut here = tokio::net::UnixStream::from_std(here).unwrap();
                    let ended = match self.is_in_place {
                        true => {
                            let connector = RcConnector::in_place(&mut any, gid_index).unwrap();
                            let connecting = connector.connect_in_place_async(&mut here);
                            tokio::time::timeout(time, connecting).await.map(Result::unwrap_err)
                        }
                        false => {
                            let qp = std::mem::replace(&mut any, ground.queue_pair().into());
                            let AnyQueuePair::Init(qp) = qp else { panic!("{}", qp.state()) };
                            let connector = RcConnector::new(qp, gid_index).unwrap();
                            let connecting = connector.connect_async(&mut here);
                            let ended = tokio::time::timeout(time, connecting).await;
                            ended.map(|ended| ended.unwrap_err().error)
                        }
                    };
                    ended.ok()
                }),
        };
        let AnyQueuePair::Init(qp) = any else { panic!("it is in {}", any.state()) };
        *field = Some(qp);
        connected
    }
}

/// A silent peer, and one that sends a byte now and then: connecting never takes longer than
/// requested, and can be repeated.
/// Ends: RcConnector::connect, RcConnector::connect_async, RcConnector::connect_in_place,
/// RcConnector::connect_in_place_async.
#[test]
fn a_silent_or_slow_peer_does_not_exceed_the_time_limit() {
    fails_on!(Iwarp, "R24.5");
    let ground = Ground::new();
    let says = ground.connector(300).endpoint().to_bytes();
    for (how, drips) in ALL.into_iter().flat_map(|how| [(how, false), (how, true)]) {
        let mut field = Some(ground.queue_pair());
        for _ in 0..2 {
            let (here, mut there) = UnixStream::pair().unwrap();
            let (tell, told) = mpsc::channel::<()>();
            let says = says.clone();
            let peer = thread::spawn(move || {
                // At this rate the endpoint would take seconds.
                let bytes = says.iter().filter(|_| drips);
                for byte in bytes {
                    if there.write_all(&[*byte]).is_err() {
                        return;
                    }
                    thread::sleep(Duration::from_millis(1));
                }
                // Silent from here on, but still connected.
                let _ = told.recv();
            });
            let began = Instant::now();
            let failed = how.fails(&ground, &mut field, here, SHORT);
            assert!(began.elapsed() >= SHORT, "{how:?}");
            match failed {
                None => assert!(how.is_awaited),
                Some(ConnectError::Exchange(ExchangeError::TimedOut {
                    after, received, ..
                })) => {
                    assert_eq!(after, SHORT);
                    assert!(drips || received.is_empty(), "{how:?}: {received:?}");
                }
                Some(error) => panic!("{how:?}: {error:?}"),
            }
            drop(tell);
            peer.join().unwrap();
        }
    }
}

/// Another thread of this side shuts the stream down while it is read, which ends it.
/// Ends: RcConnector::connect, RcConnector::connect_async, RcConnector::connect_in_place,
/// RcConnector::connect_in_place_async.
#[test]
fn a_stream_that_another_thread_shuts_down() {
    fails_on!(Iwarp, "R24.5");
    let ground = Ground::new();
    for how in ALL {
        let mut field = Some(ground.queue_pair());
        for _ in 0..2 {
            let (here, _there) = UnixStream::pair().unwrap();
            let shuts = here.try_clone().unwrap();
            let closer = thread::spawn(move || shuts.shutdown(Shutdown::Both).unwrap());
            let failed = how.fails(&ground, &mut field, here, long()).expect("it ends before");
            let ConnectError::Exchange(ExchangeError::HungUp { .. } | ExchangeError::Io { .. }) =
                failed
            else {
                panic!("{how:?}: {failed:?}");
            };
            closer.join().unwrap();
        }
    }
}

/// The device breaks during the exchange. The next device call reports it; the queue pair comes
/// back and the peer is notified.
/// Ends: RcConnector::connect, RcConnector::connect_async, RcConnector::connect_in_place,
/// RcConnector::connect_in_place_async.
#[test]
fn a_device_that_breaks_before_the_peer_sends() {
    fails_on!(Iwarp, "R24.5", Device::open().kind != Kind::Siw);
    for how in ALL {
        let fabric = Device::fabric();
        let dev = Device::loopback(&fabric);
        let ground = Ground { pd: dev.ctx.alloc_pd().unwrap(), dev };
        let says = ground.connector(0).endpoint().to_bytes();
        let mut field = Some(ground.queue_pair());
        let (here, mut there) = UnixStream::pair().unwrap();
        let peer = thread::scope(|scope| {
            let peer = scope.spawn(|| {
                // It has sent its whole endpoint when the other side begins.
                let mut heard = vec![0; says.len()];
                there.read_exact(&mut heard).unwrap();
                assert!(fabric.break_device(&ground.dev.ctx));
                there.write_all(&says).unwrap();
                there.read_to_end(&mut heard).unwrap();
                heard
            });
            let failed = how.fails(&ground, &mut field, here, long()).expect("it ends");
            let ConnectError::Verbs(error) = failed else { panic!("{how:?}: {failed:?}") };
            assert_eq!(error.errno(), Some(libc::EIO), "{how:?}");
            peer.join().unwrap()
        });
        assert!(peer.ends_with(b"pvno"), "{how:?}: {}", peer.escape_ascii());
    }
}

/// A queue pair that is not in INIT is rejected before anything is sent, and is unchanged.
#[test]
fn a_field_connects_only_from_init() {
    fails_on!(Iwarp, "R24.5");
    let ground = Ground::new();
    let theirs = ground.connector(0);
    let gid_index = Some(ground.dev.gid_index);
    let mut field = AnyQueuePair::from(ground.connector(0).into_qp());
    RcConnector::in_place(&mut field, gid_index)
        .unwrap()
        .connect_in_place_to(theirs.endpoint())
        .unwrap();
    assert_eq!(field.query().unwrap().state, Some(QpState::Rts));
    let error = RcConnector::in_place(&mut field, gid_index).unwrap_err().to_string();
    assert!(
        error.contains("cannot connect a queue pair in RTS, only in INIT: reset it first"),
        "{error}"
    );
    assert_eq!(field.state(), QpState::Rts);
    field.reset().unwrap();
    assert!(RcConnector::in_place(&mut field, gid_index).is_err());
    // After INIT it connects again.
    field.modify(ConnectedInit { pkey_index: 0, port: 1, access: QpAccess::all() }).unwrap();
    RcConnector::in_place(&mut field, gid_index)
        .unwrap()
        .connect_in_place_to(theirs.endpoint())
        .unwrap();
    assert_eq!(field.state(), QpState::Rts);
}
