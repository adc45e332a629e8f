//! Connecting over a tokio stream.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use ::tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::Endpoint;
use super::connect::RcConnector;
use super::exchange::{CHUNK, Dialogue, ExchangeError, Next, REFUSED};
use super::stream::Stop;
use super::unconnected::{ConnectError, Stage};
use crate::profile::Profile;
use crate::qp::{AnyQueuePair, QueuePair};
use crate::terms::error::Refused;
use crate::terms::state::Rts;
use crate::terms::transport::Rc;

impl<P: Profile> RcConnector<P> {
    /// Like [`connect`](Self::connect), over a tokio stream (feature `tokio`). It waits **forever**
    /// if the peer sends nothing: wrap it in a timeout.
    ///
    /// Dropping the future drops the queue pair, which returns the buffers of its receives. The
    /// stream cannot be used any more, because part of the peer's message may have been read.
    ///
    /// ```
    /// use proverbs::{endpoint::{ConnectError, RcConnector}, loopback::Fabric, prelude::*};
    /// use tokio::net::UnixStream; // or a `TcpStream`
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    /// # runtime.block_on(async {
    /// # let context = Fabric::new().open_device();
    /// # let pd = context.alloc_pd()?;
    /// # let cq: CompletionQueue = context.create_cq(32)?;
    /// # let qp = || -> Result<_, proverbs::Error> {
    /// #     let qp = pd.create_qp::<Rc, DefaultProfile>(&cq, &cq, Depth { send: 4, recv: 4 })?;
    /// #     Ok(qp.modify(ConnectedInit { pkey_index: 0, port: 1, access: QpAccess::all() })?)
    /// # };
    /// let (mut here, mut there) = UnixStream::pair()?;
    /// let gid = Some(context.roce_v2_gid(1)?.index());
    /// let (a, b) = (RcConnector::new(qp()?, gid)?, RcConnector::new(qp()?, gid)?);
    /// let both = async { tokio::join!(a.connect_async(&mut here), b.connect_async(&mut there)) };
    /// let (a, b) = tokio::time::timeout(std::time::Duration::from_secs(10), both).await?;
    /// let (a, peer) = a.map_err(ConnectError::from)?;
    /// let (b, _) = b.map_err(ConnectError::from)?;
    /// assert_eq!(peer.qpn().get(), b.qp_num());
    /// # drop(a);
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// # })
    /// # }
    /// ```
    ///
    /// # Errors
    /// As for [`connect`](Self::connect), without the timeout.
    #[allow(clippy::type_complexity)] // shows what is returned
    pub async fn connect_async<S>(
        self,
        stream: &mut S,
    ) -> Result<(QueuePair<Rc, Rts, P>, Endpoint), Refused<Stage<P>, ConnectError>>
    where
        S: AsyncRead + AsyncWrite + Unpin + ?Sized,
    {
        let met = meet(self.endpoint(), stream).await;
        let peer = or_refused!(Stage::Init(self.into_qp()), met);
        let qp = match self.connect_to(&peer) {
            Ok(qp) => qp,
            Err(refused) => {
                refuse(stream).await;
                return Err(refused);
            }
        };
        or_refused!(Stage::Rts(qp), agree(stream).await);
        Ok((qp, peer))
    }
}

impl<P: Profile> RcConnector<P, &mut AnyQueuePair<Rc, P>> {
    /// Like [`connect_in_place`](Self::connect_in_place), over a tokio stream (feature `tokio`). It
    /// waits **forever** if the peer sends nothing: wrap it in a timeout.
    ///
    /// Dropping the future leaves the queue pair in the state that it reached. The stream cannot be
    /// used any more, because part of the peer's message may have been read.
    ///
    /// ```
    /// use proverbs::{endpoint::RcConnector, loopback::Fabric, prelude::*};
    /// use proverbs::{qp::AnyQueuePair, state::QpState};
    /// use tokio::net::UnixStream; // or a `TcpStream`
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    /// # runtime.block_on(async {
    /// # let context = Fabric::new().open_device();
    /// # let pd = context.alloc_pd()?;
    /// # let cq: CompletionQueue = context.create_cq(32)?;
    /// # let qp = || -> Result<_, proverbs::Error> {
    /// #     let qp = pd.create_qp::<Rc, DefaultProfile>(&cq, &cq, Depth { send: 4, recv: 4 })?;
    /// #     Ok(qp.modify(ConnectedInit { pkey_index: 0, port: 1, access: QpAccess::all() })?)
    /// # };
    /// let (mut here, mut there) = UnixStream::pair()?;
    /// // Fields of structs.
    /// let (mut a, mut b): (AnyQueuePair<Rc>, AnyQueuePair<Rc>) = (qp()?.into(), qp()?.into());
    /// let gid = Some(context.roce_v2_gid(1)?.index());
    /// let to_b = RcConnector::in_place(&mut a, gid)?.connect_in_place_async(&mut here);
    /// let to_a = RcConnector::in_place(&mut b, gid)?.connect_in_place_async(&mut there);
    /// let both = async { tokio::try_join!(to_b, to_a) };
    /// let (peer, _) = tokio::time::timeout(std::time::Duration::from_secs(10), both).await??;
    /// assert_eq!((peer.qpn().get(), a.state()), (b.qp_num(), QpState::Rts));
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// # })
    /// # }
    /// ```
    ///
    /// # Errors
    /// As for [`connect_in_place`](Self::connect_in_place), without the timeout.
    pub async fn connect_in_place_async<S>(self, stream: &mut S) -> Result<Endpoint, ConnectError>
    where
        S: AsyncRead + AsyncWrite + Unpin + ?Sized,
    {
        let peer = meet(self.endpoint(), stream).await?;
        if let Err(error) = self.connect_in_place_to(&peer) {
            refuse(stream).await;
            return Err(error);
        }
        agree(stream).await?;
        Ok(peer)
    }
}

/// Exchanges endpoints. Returns the peer's.
async fn meet<S>(mine: &Endpoint, stream: &mut S) -> Result<Endpoint, ExchangeError>
where
    S: AsyncRead + AsyncWrite + Unpin + ?Sized,
{
    let mut dialogue = Dialogue::of_endpoints(mine, Duration::MAX);
    let run = run(&mut dialogue, stream).await;
    match dialogue.peer(run) {
        Ok(peer) => Ok(peer),
        Err(error) => {
            if dialogue.is_sent() {
                refuse(stream).await;
            }
            Err(error)
        }
    }
}

/// Notifies the peer that this side can receive, and waits for the same message from the peer.
async fn agree<S>(stream: &mut S) -> Result<(), ConnectError>
where
    S: AsyncRead + AsyncWrite + Unpin + ?Sized,
{
    let mut dialogue = Dialogue::of_verdicts(Duration::MAX);
    let run = run(&mut dialogue, stream).await;
    dialogue.verdict(run)
}

async fn run<S>(dialogue: &mut Dialogue, stream: &mut S) -> Result<(), Stop>
where
    S: AsyncRead + AsyncWrite + Unpin + ?Sized,
{
    let mut bytes = [0; CHUNK];
    loop {
        match dialogue.next() {
            Next::Write(out) => {
                let count = poll_fn(|task| Pin::new(&mut *stream).poll_write(task, out)).await?;
                dialogue.wrote(count)?;
            }
            Next::Flush => {
                poll_fn(|task| Pin::new(&mut *stream).poll_flush(task)).await?;
                dialogue.flushed();
            }
            Next::Read(most) => {
                let mut buf = ReadBuf::new(&mut bytes[..most]);
                poll_fn(|task| Pin::new(&mut *stream).poll_read(task, &mut buf)).await?;
                dialogue.came(buf.filled())?;
            }
            Next::Done => return Ok(()),
        }
    }
}

/// Notifies the peer that this side will not connect, if the stream accepts the message at once.
async fn refuse<S: AsyncWrite + Unpin + ?Sized>(stream: &mut S) {
    poll_fn(|task| {
        if Pin::new(&mut *stream).poll_write(task, &REFUSED).is_ready() {
            let _ = Pin::new(&mut *stream).poll_flush(task);
        }
        Poll::Ready(())
    })
    .await;
}
