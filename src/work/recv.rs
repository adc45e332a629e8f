//! Receive work requests.

#![allow(unsafe_code)] // writes C work requests

use crate::memory::entry::Entry;
use crate::sys::types::ibv_recv_wr;
use crate::terms::error::{Error, ErrorKind, Refused};
use crate::work::data::{Data, IntoData, Sink, Takes};
use crate::work::inline::Empty;
use crate::work::request::{Check, How, Pending, RecvSlot, Slot, Use, Work};

/// A receive work request (`struct ibv_recv_wr` of ibv_post_recv(3)): the memory for an incoming
/// message.
///
/// A message can use the whole capacity of each buffer. On UD queue pairs the first 40 bytes are
/// for the GRH ([R5.8](crate::guide::rules#r5-8)).
///
/// ```
/// # use proverbs::prelude::*;
/// # let proverbs::loopback::Pair { mut b, pool, .. } = proverbs::loopback::pair()?;
/// b.post_recv(wr::Recv::new(pool.take().ok_or("no buffer")?))?; // up to 256 bytes
/// b.post_recv(wr::Recv::empty())?;                              // a message of none
/// assert_eq!((b.recvs_outstanding(), b.recv_room()), (2, 6));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias = "ibv_recv_wr")]
#[must_use = "a work request does nothing until it is posted"]
pub struct Recv<D> {
    pub(super) data: D,
}

impl<D> Recv<D> {
    /// A receive into `data`: one buffer, or several in order.
    #[inline(always)]
    pub fn new(data: impl IntoData<Data = D>) -> Self
    where
        Self: Takes<D>,
    {
        Recv { data: data.into_data() }
    }
}

impl<D> Recv<D> {
    /// A receive into a piece of a region, whose position the program chooses. The data can also be
    /// several pieces, or a buffer and a piece. The completion contains the length of the message
    /// ([`Received::byte_len`](crate::completion::Received::byte_len)) and the unchanged pieces.
    /// Their bytes belong to the region, so peers may write them too.
    ///
    /// On a shared receive queue, the data must also contain a buffer of the queue's pool. The
    /// buffer receives the start of the message, or is there only for its context
    /// ([`with_context`](Self::with_context)).
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// # profile! { Placed { entry: OpenBuf } }
    /// # use proverbs::memory::OpenBuf;
    /// # let proverbs::loopback::Pair { mut a, mut b, mut cq, pd, .. } =
    /// #     proverbs::loopback::pair_of::<Placed>()?;
    /// let cache = pd.register::<LocalWrite>(1 << 16)?;
    /// b.post_recv(wr::Recv::at(cache.piece(4096, 512)?)?)?; // the position of its block
    /// a.post_send(wr::Send::inline(b"a block"))?;
    /// proverbs::loopback::poll(&mut cq, 2)?;
    /// let mut block = [0; 7];
    /// cache.read_at(4096, &mut block)?;
    /// assert_eq!(&block, b"a block");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The error contains the data.
    /// - [`ErrorKind::Unsupported`]: the processor cannot access a region's memory, or this is
    ///   unknown because C code registered the region. mlx5 copies short messages with the
    ///   processor ([R18.18](crate::guide::rules#r18-18)).
    /// - [`ErrorKind::Os`] with EINVAL: a piece is empty. Leave it out, or use
    ///   [`empty`](Recv::empty) ([R3.3](crate::guide::rules#r3-3)).
    /// - [`ErrorKind::Limit`]: the pieces are longer than a message can be.
    pub fn at(data: impl IntoData<Data = D>) -> Result<Self, Refused<D>>
    where
        D: Sink,
    {
        const VERB: &str = "ibv_post_recv";
        const LONGEST: u64 = (1 << 31) - 1;
        let data = data.into_data();
        let (mut all, mut error) = (0, None);
        data.each_piece(&mut |piece| {
            let len = piece.len() as u64;
            all += len;
            let asked = || format!("a receive into a piece of {len} bytes");
            let why = if !piece.has_bytes() {
                let lacks = "the processor cannot access its region's memory".into();
                let instead = "receive into a pool, or let the peer WRITE there (R18.18)";
                Error::new(VERB, ErrorKind::Unsupported { asked: asked(), lacks, instead })
            } else if len == 0 {
                let why = format!("{}: post `wr::Recv::empty()` (R3.3)", asked());
                Error::os(VERB, libc::EINVAL, why)
            } else if all > LONGEST {
                Error::limit(VERB, "length", all, LONGEST)
            } else {
                return;
            };
            error.get_or_insert(why);
        });
        match error {
            None => Ok(Recv { data }),
            Some(error) => Err(Refused::new(data, error)),
        }
    }
}

impl Recv<Empty> {
    /// A receive without a buffer, for RDMA_WRITE_WITH_IMM or zero-length messages.
    #[inline(always)]
    pub fn empty() -> Self {
        Recv { data: Empty }
    }
}

impl<E: Entry, D: Data<E>> Work<E> for Recv<D> {
    type Wr = ibv_recv_wr;
    type Data = D;

    #[inline(always)]
    unsafe fn emit(self, slot: *mut RecvSlot<D::Sges>, check: &mut Check) -> Pending<E, D> {
        // SAFETY: the slot is writable, has room for `D::Sges`, and lives until the post.
        unsafe {
            let (wr, sges) = Slot::parts(slot);
            let emitted = self.data.emit(sges, How { use_: Use::Fill, limit: 0 }, check);
            (*wr).sg_list = emitted.sges;
            (*wr).num_sge = emitted.count;
            Pending::new(emitted.entry, emitted.wr_id)
        }
    }
}

impl_debug!([D] Recv<D>, |_| "Recv");
