//! What the examples of the documentation have around them, so that each shows one thing.

use crate::*;

/// Two connected RC queue pairs on a loopback device of their own.
#[allow(missing_docs)]
pub struct Ends {
    pub context: Context,
    pub pd: ProtectionDomain,
    pub cq: CompletionQueue,
    /// 16 buffers of 256 bytes.
    pub pool: Pool,
    pub a: QueuePair<Rc, Rts>,
    pub b: QueuePair<Rc, Rts>,
}

/// See [`Ends`].
pub fn ends() -> Result<Ends, VerbsError> {
    let context = loopback::Fabric::new().open_device();
    let pd = context.alloc_pd()?;
    let cq = context.create_cq(64)?;
    let pool = pd.create_pool(16, 256)?;
    let depth = Depth { send: 8, recv: 8 };
    let a = pd.create_qp::<Rc, DefaultProfile>(&cq, &cq, depth)?;
    let b = pd.create_qp::<Rc, DefaultProfile>(&cq, &cq, depth)?;
    let gid = context.query_gid(1, 1)?;
    let connect = |qp: QueuePair<Rc, Reset>, peer: u32| -> Result<_, VerbsError> {
        let psn = Psn::try_from(0)?;
        let qp = qp.modify(ConnectedInit { pkey_index: 0, port: 1, access: QpAccess::all() })?;
        let address = AddressVector::roce(1, gid, 1);
        let qp = qp.modify(RcRtr::new(address, Qpn::try_from(peer)?, psn))?;
        Ok(qp.modify(RcRts::new(psn, ReadDepth::ONE))?)
    };
    let (a_num, b_num) = (a.qp_num(), b.qp_num());
    let (a, b) = (connect(a, b_num)?, connect(b, a_num)?);
    Ok(Ends { context, pd, cq, pool, a, b })
}

/// Polls until `count` completions came, which must be successes.
pub fn poll(cq: &mut CompletionQueue, count: usize) -> Result<Vec<Option<Buf>>, VerbsError> {
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
