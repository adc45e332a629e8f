//! What the examples of the documentation have around them, so that each shows one thing.

use crate::entry::Owned;
use crate::profile::{Initiator, InitiatorDepth};
use crate::rules::UsesOwnQueue;
use crate::*;

/// Two connected RC queue pairs on a loopback device of their own.
#[allow(missing_docs)]
pub struct Ends<P: Profile = DefaultProfile> {
    pub fabric: loopback::Fabric,
    pub context: Context,
    pub pd: ProtectionDomain,
    pub cq: CompletionQueue<P::Entry>,
    /// 16 buffers of 256 bytes.
    pub pool: Pool,
    pub a: QueuePair<Rc, Rts, P>,
    pub b: QueuePair<Rc, Rts, P>,
}

const DEPTH: Depth = Depth { send: 8, recv: 8 };

/// See [`Ends`].
///
/// # Errors
/// What the verbs on the way say.
pub fn ends() -> Result<Ends, VerbsError> {
    ends_of()
}

/// See [`Ends`].
///
/// # Errors
/// What the verbs on the way say.
pub fn ends_of<P: Profile<Receive: UsesOwnQueue>>() -> Result<Ends<P>, VerbsError> {
    let fabric = loopback::Fabric::new();
    let context = fabric.open_device();
    let pd = context.alloc_pd()?;
    let cq = context.create_cq(64)?;
    let pool = pd.create_pool(16, 256)?;
    let a = pd.create_qp::<Rc, P>(&cq, &cq, DEPTH)?;
    let b = pd.create_qp::<Rc, P>(&cq, &cq, DEPTH)?;
    let gid = context.query_gid(1, 1)?;
    let connect = |qp: QueuePair<Rc, Reset, P>, peer: u32| -> Result<_, VerbsError> {
        let psn = Psn::try_from(0)?;
        let qp = qp.modify(ConnectedInit { pkey_index: 0, port: 1, access: QpAccess::all() })?;
        let address = AddressVector::roce(1, gid, 1);
        let qp = qp.modify(RcRtr::new(address, Qpn::try_from(peer)?, psn))?;
        let depth = <<P::Initiator as Initiator>::Depth as InitiatorDepth>::LEAST;
        Ok(qp.modify(RcRts::new(psn, depth))?)
    };
    let (a_num, b_num) = (a.qp_num(), b.qp_num());
    let (a, b) = (connect(a, b_num)?, connect(b, a_num)?);
    Ok(Ends { fabric, context, pd, cq, pool, a, b })
}

/// Two UD queue pairs on a loopback device of their own.
#[allow(missing_docs)]
pub struct DatagramEnds {
    pub fabric: loopback::Fabric,
    pub context: Context,
    pub pd: ProtectionDomain,
    pub cq: CompletionQueue,
    /// 16 buffers of 256 bytes.
    pub pool: Pool,
    pub a: QueuePair<Ud, Rts>,
    pub b: QueuePair<Ud, Rts>,
    /// What a send of `a` must say to reach `b`.
    pub to_b: Destination,
}

/// See [`DatagramEnds`].
///
/// # Errors
/// What the verbs on the way say.
pub fn datagram_ends() -> Result<DatagramEnds, VerbsError> {
    let fabric = loopback::Fabric::new();
    let context = fabric.open_device();
    let pd = context.alloc_pd()?;
    let cq = context.create_cq(64)?;
    let pool = pd.create_pool(16, 256)?;
    let (qkey, sq_psn) = (Qkey::try_from(0x1111)?, Psn::try_from(0)?);
    let ready = || -> Result<_, VerbsError> {
        let qp = pd.create_qp::<Ud, DefaultProfile>(&cq, &cq, DEPTH)?;
        let qp = qp.modify(UdInit { pkey_index: 0, port: 1, qkey: qkey.into() })?;
        let qp = qp.modify(UdRtr::default())?;
        Ok(qp.modify(UdRts { sq_psn, qkey: None })?)
    };
    let (mut a, b) = (ready()?, ready()?);
    let ah = pd.create_ah(AddressVector::roce(1, context.query_gid(1, 1)?, 1))?;
    let address_handle = a.add_address_handle(ah)?;
    let to_b = Destination { address_handle, qpn: Qpn::try_from(b.qp_num())?, qkey };
    Ok(DatagramEnds { fabric, context, pd, cq, pool, a, b, to_b })
}

/// Polls until `count` completions came, which must be successes.
///
/// # Errors
/// What the queue says, or why one of them failed.
pub fn poll<E: Owned>(
    cq: &mut CompletionQueue<E>,
    count: usize,
) -> Result<Vec<Option<E>>, VerbsError> {
    let mut entries = Vec::new();
    while entries.len() < count {
        for completion in cq.poll()? {
            if let Err(error) = completion.status() {
                return Err(VerbsError::os("ibv_poll_cq", libc::EIO, error.to_string()));
            }
            entries.push(completion.into_entry());
        }
    }
    Ok(entries)
}
