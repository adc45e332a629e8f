//! Connecting over a stream of tokio.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use ::tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::Endpoint;
use super::connect::RcConnector;
use super::exchange::{CHUNK, Exchange, ExchangeError, READY, REFUSED, verdict};
use super::stream::Stop;
use super::unconnected::{ConnectError, Stage};
use crate::profile::Profile;
use crate::qp::{AnyQueuePair, QueuePair};
use crate::terms::error::Refused;
use crate::terms::state::Rts;
use crate::terms::transport::Rc;

impl<P: Profile> RcConnector<P> {
    /// Like [`connect`](Self::connect), over a stream of tokio (feature `tokio`). It waits **for
    /// ever** for a peer that says nothing: put a time-out around it.
    ///
    /// Dropped, the future drops the queue pair, whose receives then go home. The stream is of no
    /// further use, since some of the peer's message may have been read.
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
    /// let (a, b) = (RcConnector::new(qp()?, Some(1))?, RcConnector::new(qp()?, Some(1))?);
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
    /// As for [`connect`](Self::connect), but for the time-out.
    #[allow(clippy::type_complexity)] // spelt out, it says what comes back
    pub async fn connect_async<S>(
        self,
        stream: &mut S,
    ) -> Result<(QueuePair<Rc, Rts, P>, Endpoint), Refused<Stage<P>, ConnectError>>
    where
        S: AsyncRead + AsyncWrite + Unpin + ?Sized,
    {
        let peer = match meet(self.endpoint(), stream).await {
            Ok(peer) => peer,
            Err(error) => return Err(Refused::new(Stage::Init(self.into_qp()), error.into())),
        };
        let qp = match self.connect_to(&peer) {
            Ok(qp) => qp,
            Err(refused) => {
                refuse(stream).await;
                return Err(refused);
            }
        };
        match agree(stream).await {
            Ok(()) => Ok((qp, peer)),
            Err(error) => Err(Refused::new(Stage::Rts(qp), error)),
        }
    }
}

impl<P: Profile> RcConnector<P, &mut AnyQueuePair<Rc, P>> {
    /// Like [`connect_in_place`](Self::connect_in_place), over a stream of tokio (feature `tokio`).
    /// It waits **for ever** for a peer that says nothing: put a time-out around it.
    ///
    /// Dropped, the future leaves the queue pair in the state that it reached. The stream is of no
    /// further use, since some of the peer's message may have been read.
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
    /// let to_b = RcConnector::in_place(&mut a, Some(1))?.connect_in_place_async(&mut here);
    /// let to_a = RcConnector::in_place(&mut b, Some(1))?.connect_in_place_async(&mut there);
    /// let both = async { tokio::try_join!(to_b, to_a) };
    /// let (peer, _) = tokio::time::timeout(std::time::Duration::from_secs(10), both).await??;
    /// assert_eq!((peer.qpn().get(), a.state()), (b.qp_num(), QpState::Rts));
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// # })
    /// # }
    /// ```
    ///
    /// # Errors
    /// As for [`connect_in_place`](Self::connect_in_place), but for the time-out.
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

/// Exchanges endpoints; the peer's.
async fn meet<S>(mine: &Endpoint, stream: &mut S) -> Result<Endpoint, ExchangeError>
where
    S: AsyncRead + AsyncWrite + Unpin + ?Sized,
{
    let mut exchange = Exchange::new(mine, Duration::MAX);
    match run(&mut exchange, stream).await {
        Ok(peer) => Ok(peer),
        Err(error) => {
            if exchange.is_sent() {
                refuse(stream).await;
            }
            Err(error)
        }
    }
}

/// By turns as long as [`CHUNK`], so that no side waits for the other to read.
async fn run<S>(exchange: &mut Exchange, stream: &mut S) -> Result<Endpoint, ExchangeError>
where
    S: AsyncRead + AsyncWrite + Unpin + ?Sized,
{
    while !exchange.is_sent() || exchange.received.len() < exchange.needed {
        let end = exchange.out.len().min(exchange.sent + CHUNK);
        while exchange.sent < end {
            let written = write(stream, &exchange.out[exchange.sent..end]).await;
            exchange.sent += written.map_err(|error| exchange.stopped(Stop::Io(error)))?;
        }
        flush(stream).await.map_err(|error| exchange.stopped(Stop::Io(error)))?;
        let end = exchange.received.len() + CHUNK;
        while exchange.received.len() < end.min(exchange.needed) {
            let at = exchange.received.len();
            exchange.received.resize(end.min(exchange.needed), 0);
            let result = read(stream, &mut exchange.received[at..]).await;
            exchange.received.truncate(at + *result.as_ref().unwrap_or(&0));
            let count = result.map_err(|error| exchange.stopped(Stop::Io(error)))?;
            exchange.came(count)?;
        }
    }
    exchange.peer()
}

/// Tells the peer that this side can receive, and waits for the same.
async fn agree<S>(stream: &mut S) -> Result<(), ConnectError>
where
    S: AsyncRead + AsyncWrite + Unpin + ?Sized,
{
    let failed = |error| ExchangeError::Io { error, received: Vec::new() };
    let mut sent = 0;
    while sent < READY.len() {
        sent += write(stream, &READY[sent..]).await.map_err(failed)?;
    }
    flush(stream).await.map_err(failed)?;
    let (mut word, mut at) = ([0; 4], 0);
    while at < word.len() {
        let received = |word: &[u8; 4]| word[..at].to_vec();
        match read(stream, &mut word[at..]).await {
            Ok(0) => {
                let received = received(&word);
                return Err(ExchangeError::HungUp { needed: READY.len(), received }.into());
            }
            Ok(count) => at += count,
            Err(error) => {
                let received = received(&word);
                return Err(ExchangeError::Io { error, received }.into());
            }
        }
    }
    verdict(word)
}

/// Tells the peer, if the stream takes it at once, that this side will not connect.
async fn refuse<S: AsyncWrite + Unpin + ?Sized>(stream: &mut S) {
    poll_fn(|task| {
        if Pin::new(&mut *stream).poll_write(task, &REFUSED).is_ready() {
            let _ = Pin::new(&mut *stream).poll_flush(task);
        }
        Poll::Ready(())
    })
    .await;
}

/// Writes at least a byte.
async fn write<S: AsyncWrite + Unpin + ?Sized>(stream: &mut S, bytes: &[u8]) -> io::Result<usize> {
    match poll_fn(|task| Pin::new(&mut *stream).poll_write(task, bytes)).await {
        Ok(0) => Err(io::ErrorKind::WriteZero.into()),
        written => written.map(|count| count.min(bytes.len())),
    }
}

async fn flush<S: AsyncWrite + Unpin + ?Sized>(stream: &mut S) -> io::Result<()> {
    poll_fn(|task| Pin::new(&mut *stream).poll_flush(task)).await
}

/// Reads at least a byte, if the stream has not ended.
async fn read<S: AsyncRead + Unpin + ?Sized>(
    stream: &mut S,
    bytes: &mut [u8],
) -> io::Result<usize> {
    let mut buf = ReadBuf::new(bytes);
    poll_fn(|task| Pin::new(&mut *stream).poll_read(task, &mut buf)).await?;
    Ok(buf.filled().len())
}
