//! Connected queue pairs for tests and examples.

use crate::bounded::{Psn, Qkey, Qpn};
use crate::completion::{CompletionQueue, Outcome};
use crate::device::{AddressVector, Context, ProtectionDomain};
use crate::loopback::Fabric;
use crate::memory::{Buf, Entry, Owned, Pool};
use crate::qp::{
    AnyThread, ConnectedInit, CreatedWith, DefaultProfile, Depth, Initiator, InitiatorDepth,
    Profile, QpAccess, QueuePair, RcRtr, RcRts, Transition, UcRtr, UcRts, UdInit, UdRtr, UdRts,
};
use crate::rules::HasBothQueues;
use crate::state::{Init, Reset, Rts};
use crate::terms::error::Error;
use crate::transport::{Rc, Transport, Uc, Ud};
use crate::wr::Destination;

/// Two connected queue pairs on their own fabric, with everything that a test needs: see [`pair`]
/// and [`uc_pair`].
pub struct Pair<P: Profile = DefaultProfile, T: Transport = Rc> {
    /// The fabric, to [inject](Fabric::inject) faults or open more devices.
    pub fabric: Fabric,
    /// The device of both queue pairs.
    pub context: Context,
    /// The protection domain of both queue pairs.
    pub pd: ProtectionDomain,
    /// The completion queue of all sends and receives, with room for 64.
    pub cq: CompletionQueue<P::Entry>,
    /// 16 buffers of 256 bytes.
    pub pool: Pool,
    /// One end, with room for 8 sends and 8 receives.
    pub a: QueuePair<T, Rts, P>,
    /// The other end, like `a`.
    pub b: QueuePair<T, Rts, P>,
}

const DEPTH: Depth = Depth { send: 8, recv: 8 };

/// Connects two RC queue pairs of the [`DefaultProfile`] on a new [`Fabric`], so that you can test
/// your functions without a device. (For a connection with rdma_cm, use `cm::loopback_pair`.)
///
/// ```
/// use proverbs::{loopback::{self, Pair}, prelude::*};
///
/// // The function under test:
/// fn greet(qp: &mut QueuePair<Rc, Rts>) -> Result<(), PostError<Buf>> {
///     qp.post_send(wr::Send::inline(b"hello"))
/// }
///
/// let Pair { mut a, mut b, mut cq, pool, .. } = loopback::pair()?;
/// b.post_recv(wr::Recv::new(pool.take().ok_or("no buffer")?))?;
/// greet(&mut a)?;
///
/// let done = loopback::poll(&mut cq, 2)?; // the send, which has no buffer, and the receive
/// let received = done.into_iter().flatten().next().ok_or("nothing was received")?;
/// assert_eq!(&received[..5], b"hello");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`ErrorKind::Os`](crate::ErrorKind::Os) with the errno of the verb that failed: the process is
/// out of memory or of file descriptors.
pub fn pair() -> Result<Pair, Error> {
    pair_of()
}

/// Connects two RC queue pairs of the profile `P`, like [`pair`].
///
/// ```
/// use proverbs::{loopback::{self, Pair}, prelude::*};
///
/// profile! { Ring { signaling: Selective } }
/// let Pair { mut a, mut cq, pool, .. } = loopback::pair_of::<Ring>()?;
/// a.post_send(wr::Send::new(pool.take().ok_or("no buffer")?).signaled())?;
/// # assert!(loopback::poll(&mut cq, 1).is_err()); // no receive was posted
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`ErrorKind::Os`](crate::ErrorKind::Os) with the errno of the verb that failed, and
/// [`ErrorKind::Limit`](crate::ErrorKind::Limit) if the profile exceeds a limit of the device.
pub fn pair_of<P: Profile<Threads = AnyThread>>() -> Result<Pair<P>, Error>
where
    Depth: CreatedWith<Rc, P>,
{
    pair_on(Fabric::new())
}

pub(crate) fn pair_on<P: Profile<Threads = AnyThread>>(fabric: Fabric) -> Result<Pair<P>, Error>
where
    Depth: CreatedWith<Rc, P>,
{
    join(fabric, |qp, address, peer| {
        let psn = Psn::try_from(0)?;
        let qp = qp.modify(RcRtr::new(address, peer, psn))?;
        let depth = <<P::Initiator as Initiator>::Depth as InitiatorDepth>::LEAST;
        Ok(qp.modify(RcRts::new(psn, depth))?)
    })
}

/// Connects two UC queue pairs of the profile `P`, like [`pair`].
///
/// ```
/// use proverbs::{loopback::{self, Pair}, prelude::*};
///
/// let Pair { mut a, mut b, mut cq, pool, .. } = loopback::uc_pair::<DefaultProfile>()?;
/// b.post_recv(wr::Recv::new(pool.take().ok_or("no buffer")?))?;
/// a.post_send(wr::Send::inline(b"hello"))?;
/// assert_eq!(loopback::poll(&mut cq, 2)?.len(), 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// As for [`pair_of`].
pub fn uc_pair<P: Profile<Threads = AnyThread>>() -> Result<Pair<P, Uc>, Error>
where
    Depth: CreatedWith<Uc, P>,
{
    join(Fabric::new(), |qp, address, peer| {
        let psn = Psn::try_from(0)?;
        Ok(qp.modify(UcRtr::new(address, peer, psn))?.modify(UcRts::new(psn))?)
    })
}

/// Two queue pairs. `connect` moves each of them from INIT to RTS, with the address and the number
/// of the other one.
fn join<T, P>(
    fabric: Fabric,
    connect: impl Fn(QueuePair<T, Init, P>, AddressVector, Qpn) -> Result<QueuePair<T, Rts, P>, Error>,
) -> Result<Pair<P, T>, Error>
where
    T: HasBothQueues,
    P: Profile<Threads = AnyThread>,
    Depth: CreatedWith<T, P>,
    ConnectedInit: Transition<T, Reset, P, To = Init>,
{
    let (fabric, context, pd, cq, pool) = device(fabric)?;
    let a = pd.create_qp::<T, P>(&cq, &cq, DEPTH)?;
    let b = pd.create_qp::<T, P>(&cq, &cq, DEPTH)?;
    let address = AddressVector::roce(1, context.query_gid(1, 1)?, 1);
    let ready = |qp: QueuePair<T, Reset, P>, peer: u32| {
        let access = QpAccess::all() | QpAccess::FLUSH_GLOBAL | QpAccess::FLUSH_PERSISTENT;
        let qp = qp.modify(ConnectedInit { pkey_index: 0, port: 1, access })?;
        connect(qp, address, Qpn::try_from(peer)?)
    };
    let (a_num, b_num) = (a.qp_num(), b.qp_num());
    let (a, b) = (ready(a, b_num)?, ready(b, a_num)?);
    Ok(Pair { fabric, context, pd, cq, pool, a, b })
}

/// Two UD queue pairs on their own fabric: see [`datagram_pair`].
pub struct DatagramPair {
    /// The fabric, to [inject](Fabric::inject) faults or open more devices.
    pub fabric: Fabric,
    /// The device of both queue pairs.
    pub context: Context,
    /// The protection domain of both queue pairs.
    pub pd: ProtectionDomain,
    /// The completion queue of all sends and receives, with room for 64.
    pub cq: CompletionQueue<Buf>,
    /// 16 buffers of 256 bytes.
    pub pool: Pool,
    /// One end, with room for 8 sends and 8 receives.
    pub a: QueuePair<Ud, Rts>,
    /// The other end, like `a`.
    pub b: QueuePair<Ud, Rts>,
    /// The destination of a send from `a` to `b`.
    pub to_b: Destination,
}

/// Creates two UD queue pairs on a new [`Fabric`]. The first has an address handle for the second.
///
/// ```
/// use proverbs::{loopback::{self, DatagramPair}, prelude::*};
///
/// let DatagramPair { mut a, mut b, mut cq, pool, to_b, .. } = loopback::datagram_pair()?;
/// b.post_recv(wr::Recv::new(pool.take().ok_or("no buffer")?))?;
/// a.post_send(wr::Send::inline(b"hello").to(to_b))?;
/// assert_eq!(loopback::poll(&mut cq, 2)?.len(), 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`ErrorKind::Os`](crate::ErrorKind::Os) with the errno of the verb that failed: the process is
/// out of memory or of file descriptors.
pub fn datagram_pair() -> Result<DatagramPair, Error> {
    let (fabric, context, pd, cq, pool) = device(Fabric::new())?;
    let (qkey, sq_psn) = (Qkey::try_from(0x1111)?, Psn::try_from(0)?);
    let ready = || -> Result<_, Error> {
        let qp = pd.create_qp::<Ud, DefaultProfile>(&cq, &cq, DEPTH)?;
        let qp = qp.modify(UdInit { pkey_index: 0, port: 1, qkey: qkey.into() })?;
        let qp = qp.modify(UdRtr::default())?;
        Ok(qp.modify(UdRts::new(sq_psn))?)
    };
    let (mut a, b) = (ready()?, ready()?);
    let ah = pd.create_ah(AddressVector::roce(1, context.query_gid(1, 1)?, 1))?;
    let address_handle = a.add_address_handle(ah)?;
    let to_b = Destination { address_handle, qpn: Qpn::try_from(b.qp_num())?, qkey };
    Ok(DatagramPair { fabric, context, pd, cq, pool, a, b, to_b })
}

type Device<E> = (Fabric, Context, ProtectionDomain, CompletionQueue<E>, Pool);

/// The objects around the queue pairs of a pair.
pub(crate) fn device<E: Entry>(fabric: Fabric) -> Result<Device<E>, Error> {
    let context = fabric.open_device();
    let pd = context.alloc_pd()?;
    let cq = context.create_cq(64)?;
    let pool = pd.create_pool(16, 256)?;
    Ok((fabric, context, pd, cq, pool))
}

/// How many polls of a loopback device in a row may return nothing before [`poll`] decides that no
/// more completions will arrive.
const IDLE: usize = 1000;

/// Polls until `count` work requests have completed, and returns their buffers in completion order:
/// `None` if a work request had no buffer. A receive's buffer has the length of the message. This
/// is for tests on a [`Fabric`]; on a device, a program chooses its own timeout.
///
/// # Errors
/// [`ErrorKind::Os`](crate::ErrorKind::Os): EIO if a work request failed (the message has the
/// reason), EAGAIN if fewer completions than `count` arrive (a thousand polls in a row returned
/// nothing), and the errors of [`CompletionQueue::poll`].
pub fn poll<E: Owned>(cq: &mut CompletionQueue<E>, count: usize) -> Result<Vec<Option<E>>, Error> {
    let (mut entries, mut idle) = (Vec::new(), 0);
    while entries.len() < count {
        idle += 1;
        for completion in cq.poll()? {
            if let Err(error) = completion.status() {
                return Err(Error::os("ibv_poll_cq", libc::EIO, error.to_string()));
            }
            entries.push(match completion.outcome() {
                Outcome::Sent(sent) => sent.entry,
                Outcome::Received(received) => received.entry,
                Outcome::Datagram(received) => received.entry,
                Outcome::Failed(failed) => failed.entry,
                Outcome::Selective(_) => None,
            });
            idle = 0;
        }
        if idle == IDLE {
            let came = format!("{} of {count} completions arrived", entries.len());
            return Err(Error::os("ibv_poll_cq", libc::EAGAIN, came));
        }
    }
    Ok(entries)
}

impl_debug!([P: Profile, T: Transport] Pair<P, T>, |Pair { a, b, .. }|
    "Pair {{ a: {a:?}, b: {b:?}, .. }}");

impl_debug!(DatagramPair, |DatagramPair { a, b, .. }| "DatagramPair {{ a: {a:?}, b: {b:?}, .. }}");
