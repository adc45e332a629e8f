//! Shared by the tests: the device's address, ends of connections, polling with a limit.

use std::net::{Ipv6Addr, SocketAddr};
use std::sync::{LazyLock, mpsc};
use std::thread;
use std::time::Instant;

use proverbs::cm::*;
use proverbs::completion::Received;
use proverbs::loopback::{Fabric, Personality, World};
use proverbs::qp::{AnyThread, Drained, Max, OwnRq};
use proverbs::state::Init;
use proverbs::transport::Rc;
use proverbs::{
    Buf, CompletionQueue, Context, DefaultProfile, Depth, Outcome, Pool, Profile, QueuePair,
    post_send, wr,
};

pub use crate::patience::long;

/// The fabric of all tests, unless a device is named, with its open devices.
static FABRIC: LazyLock<Option<(Fabric, [Context; 2])>> = LazyLock::new(|| {
    std::env::var_os("PROVERBS_DEVICE").is_none().then(|| {
        let fabric = Fabric::with(world());
        let devices = [(); 2].map(|()| fabric.open_device());
        (fabric, devices)
    })
});

/// The world from `PROVERBS_WORLD`, with the personality from `PROVERBS_PERSONALITY`.
fn world() -> World {
    let world = match std::env::var("PROVERBS_WORLD").as_deref() {
        Err(_) | Ok("ipv4") => World::ipv4(),
        Ok("ipv6") => World::ipv6(),
        Ok("infiniband") => World::infiniband(),
        Ok("iwarp") => World::iwarp(),
        Ok(other) => {
            panic!("unknown PROVERBS_WORLD {other}; expected ipv4, ipv6, infiniband or iwarp")
        }
    };
    let personality = std::env::var("PROVERBS_PERSONALITY");
    world.personality(personality.map_or(Personality::Plain, |name| name.parse().unwrap()))
}

/// The fabric and its devices; `None` on a real device.
pub fn fabric() -> Option<&'static (Fabric, [Context; 2])> {
    FABRIC.as_ref()
}

/// A new id.
pub fn new_id<PS: PortSpace>() -> CmId<PS, Created> {
    match fabric() {
        Some((fabric, _)) => CmId::on(fabric).unwrap(),
        None => CmId::new().unwrap(),
    }
}

/// A new event channel.
pub fn event_channel() -> EventChannel {
    match fabric() {
        Some((fabric, _)) => EventChannel::on(fabric).unwrap(),
        None => EventChannel::new().unwrap(),
    }
}

/// Whether the device is iWARP, which has only RC, and moves queue pairs itself.
pub fn is_iwarp() -> bool {
    is_siw() || std::env::var("PROVERBS_WORLD").is_ok_and(|world| world == "iwarp")
}

/// Whether the device is Linux's siw. It connects by TCP, within `rdma_connect`: so a rejection has
/// no reason, and a missing listener is an errno. It flushes nothing that is posted after it moved
/// a queue pair to the error state (R24.7).
pub fn is_siw() -> bool {
    std::env::var("PROVERBS_DEVICE").is_ok_and(|name| name.starts_with("siw"))
}

/// The index of the device's IP address in its GID table.
pub fn gid_index() -> u8 {
    std::env::var("PROVERBS_GID_INDEX").map_or(1, |index| index.parse().unwrap())
}

/// The device's IP address, with `port`.
pub fn address(port: u16) -> SocketAddr {
    let ip = match fabric() {
        Some((fabric, devices)) => fabric.ip_of(&devices[0]).unwrap(),
        None => {
            // Not every GID is an IP address; on iWARP none is.
            if let Ok(ip) = std::env::var("PROVERBS_ADDRESS") {
                return SocketAddr::new(ip.parse().unwrap(), port);
            }
            let device = Context::open(&std::env::var("PROVERBS_DEVICE").unwrap()).unwrap();
            Ipv6Addr::from(device.query_gid(1, gid_index()).unwrap().0).to_canonical()
        }
    };
    SocketAddr::new(ip, port)
}

/// The address of a multicast group of the device's family, which an id of that family resolves.
pub fn group(number: u8) -> SocketAddr {
    match address(7471) {
        SocketAddr::V4(_) => SocketAddr::from(([239, 77, 0, number], 7471)),
        SocketAddr::V6(_) => SocketAddr::from(([0xff0e, 0, 0, 0, 0, 0, 77, number.into()], 7471)),
    }
}

/// An id that listens on a free port, and its address.
pub fn listener<PS: PortSpace>() -> (CmId<PS, Listening>, SocketAddr) {
    listener_at(address(0))
}

/// An id that listens at this address.
pub fn listener_at<PS: PortSpace>(at: SocketAddr) -> (CmId<PS, Listening>, SocketAddr) {
    let id = new_id::<PS>().bind_addr(at).unwrap().listen(8).unwrap();
    let at = id.local_addr().unwrap();
    assert_ne!(at.port(), 0);
    (id, at)
}

/// An id that is ready to connect to `at`.
pub fn routed<PS: PortSpace>(at: SocketAddr) -> CmId<PS, RouteResolved> {
    let id = new_id::<PS>().resolve_addr(at, long()).unwrap();
    assert_eq!(id.peer_addr(), Some(at));
    id.resolve_route(long()).unwrap()
}

/// The objects of an end besides its queue pair.
pub struct End {
    pub cq: CompletionQueue<Buf>,
    pub pool: Pool,
}

pub const BUFS: usize = 8;
pub const SIZE: usize = 256;

/// A queue pair with `receives` receives posted.
pub fn end<S: HasDevice, M: Mode>(
    id: &CmId<Tcp, S, M>,
    receives: usize,
) -> (QueuePair<Rc, Init, DefaultProfile>, End) {
    end_of::<DefaultProfile, S, M>(id, receives)
}

pub fn end_of<P, S: HasDevice, M: Mode>(
    id: &CmId<Tcp, S, M>,
    receives: usize,
) -> (QueuePair<Rc, Init, P>, End)
where
    P: Profile<Entry = Buf, Receive = OwnRq, Threads = AnyThread, MaxRecvSge = Max<1>>,
{
    let pd = id.pd().unwrap();
    let cq = id.context().unwrap().create_cq(64).unwrap();
    let pool = pd.create_pool(BUFS, SIZE).unwrap();
    let depth = Depth { send: 8, recv: 8 };
    let mut qp = id.create_qp::<P>(&pd, &cq, &cq, depth).unwrap();
    for _ in 0..receives {
        qp.post_recv(wr::Recv::new(pool.take().unwrap())).unwrap();
    }
    (qp, End { cq, pool })
}

impl End {
    /// Polls until `found` returns a value.
    pub fn until<T>(&mut self, mut found: impl FnMut(Outcome<'_, Buf>) -> Option<T>) -> T {
        let start = Instant::now();
        loop {
            for completion in self.cq.poll().unwrap() {
                if let Some(found) = found(completion.outcome()) {
                    return found;
                }
            }
            assert!(start.elapsed() < long(), "nothing completed");
            thread::yield_now();
        }
    }

    /// The next message.
    pub fn receive(&mut self) -> Received<Buf> {
        self.until(|outcome| match outcome {
            Outcome::Received(received) => Some(received),
            Outcome::Sent(_) => None,
            Outcome::Failed(failed) => panic!("{}", failed.error),
            _ => None,
        })
    }

    /// A message that has already arrived.
    #[cfg(feature = "tokio")]
    pub fn look(&mut self) -> Option<Received<Buf>> {
        self.cq.poll().unwrap().find_map(|completion| match completion.outcome() {
            Outcome::Received(received) => Some(received),
            Outcome::Failed(failed) => panic!("{}", failed.error),
            _ => None,
        })
    }

    /// The completion of a send.
    pub fn sent(&mut self) {
        self.until(|outcome| match outcome {
            Outcome::Sent(_) => Some(()),
            Outcome::Failed(failed) => panic!("{}", failed.error),
            _ => None,
        });
    }

    /// Drains the queue pair of a connection that ended, and checks that every buffer has returned.
    pub fn drain<P: Profile<Entry = Buf>>(
        &mut self,
        mut qp: QueuePair<Rc, proverbs::state::Err, P>,
    ) {
        qp.drain(&mut self.cq, |drained| match drained {
            Drained::Entry(buf) => drop(buf),
            Drained::Other(_) => panic!("one queue pair on this completion queue"),
        })
        .unwrap();
        qp.destroy().unwrap();
        assert_eq!(self.pool.available(), BUFS, "every buffer has returned");
    }
}

/// A connection, and the thread of its passive side, which runs `then` once it is connected.
pub fn connected(
    then: impl FnOnce(Connection, End) + std::marker::Send + 'static,
) -> (Connection, End, thread::JoinHandle<()>) {
    connected_at(address(0), then)
}

/// A connection of the device with this address.
pub fn connected_at(
    at: SocketAddr,
    then: impl FnOnce(Connection, End) + std::marker::Send + 'static,
) -> (Connection, End, thread::JoinHandle<()>) {
    let (listening, at) = listener_at::<Tcp>(at);
    let (tell, told) = mpsc::channel();
    let server = thread::spawn(move || {
        let request = listening.get_request_timeout(long()).unwrap();
        let (qp, end) = end(&request.id, 2);
        let mut connection = request.accept(qp, &AcceptParam::default(), long()).unwrap();
        post_send!(connection.qp, [wr::Send::inline(b"connected")]).unwrap();
        // On iWARP this side is connected first, and must not leave before the other one has its
        // event. Messages in transit may also be lost when its queue pair is dropped.
        told.recv_timeout(long()).unwrap();
        then(connection, end);
    });
    let id = routed::<Tcp>(at);
    let (qp, mut active) = end(&id, 2);
    let connection = id.connect(qp, &ConnParam::default(), long()).unwrap();
    assert_eq!(active.receive().data(), b"connected");
    tell.send(()).unwrap();
    (connection, active, server)
}
