//! Extended posting: sends in sessions of `ibv_wr_*`. [`ExtendedPosting`] has an example.
//!
//! The design is in
//! [docs/extended-posting.md](https://docs.rs/crate/proverbs/latest/source/docs/extended-posting.md).

use std::convert::Infallible;
use std::marker::PhantomData;

use crate::profile::{CheckOps, Posting, sealed};
use crate::rules::Writes;
use crate::sys::data::Verb;
use crate::sys::session::Session;
use crate::sys::types::{ibv_qp, ibv_send_wr};

/// Sends are posted in sessions, from `ibv_wr_start` to `ibv_wr_complete` (ibv_wr_post(3);
/// `posting` of a [`Profile`](crate::Profile)).
///
/// `ibv_post_send` does not support FLUSH and ATOMIC_WRITE. Name these operations to create a queue
/// pair for them: `ExtendedPosting<ext::persistence::Flush>` and so on ([`MoreOps`];
/// [R25.2](crate::guide::rules#r25-2)).
///
/// Each post is one session, of one work request or of a list. Methods, work requests, completions
/// and the returned buffers of a failed post are the same as with
/// [`OrdinaryPosting`](crate::qp::OrdinaryPosting). A device rejects a session as a whole, so
/// [`accepted`](crate::PostError::accepted) is 0 then ([R15.6](crate::guide::rules#r15-6)). The
/// queue pair is created with `ibv_create_qp_ex`, for the operations that its transport and profile
/// may post ([R15.1](crate::guide::rules#r15-1)). EOPNOTSUPP means that the device does not support
/// such queue pairs.
///
/// On Soft-RoCE, a list in which a work request has several scatter/gather elements is posted with
/// `ibv_post_send`, because Soft-RoCE's provider sends wrong bytes for such work requests in a
/// session ([R15.10](crate::guide::rules#r15-10), [R15.11](crate::guide::rules#r15-11)).
///
/// ```
/// # use proverbs::prelude::*;
/// use proverbs::ext::extended_posting::ExtendedPosting;
/// profile! { Direct { posting: ExtendedPosting } }
///
/// # let proverbs::loopback::Pair { mut a, b: _b, mut cq, pool, pd, .. } =
/// #     proverbs::loopback::pair_of::<Direct>()?;
/// let region = pd.register::<RemoteWrite>(256)?;
/// let at = region.remote().write();
/// let mut buf = pool.take().ok_or("no buffer")?;
/// buf.copy_from(b"in one session")?;
/// post_send!(a, [wr::RdmaWrite::new(buf, at), wr::RdmaWrite::inline(b"by", at)])?;
/// proverbs::loopback::poll(&mut cq, 2)?;
/// let mut there = [0; 14];
/// region.read_at(0, &mut there)?;
/// assert_eq!(&there, b"by one session");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias("ibv_qp_to_qp_ex", "ibv_wr_start", "ibv_wr_complete"))]
#[doc(alias("IBV_QP_INIT_ATTR_SEND_OPS_FLAGS", "ibv_qp_create_send_ops_flags", "ibv_qp_ex"))]
#[doc(alias("ibv_qp_init_attr_ex", "send_ops_flags"))]
pub struct ExtendedPosting<O: MoreOps = ()>(Infallible, PhantomData<O>);

impl<O: MoreOps> sealed::Sealed for ExtendedPosting<O> {}

impl<O: MoreOps> Posting for ExtendedPosting<O> {
    type Verb = O::Verb;
    const IS_EXTENDED: bool = true;
    const MORE_OPS: u64 = O::FLAGS;
    const CHECK: CheckOps = O::CHECK;
    const WHY_NOT: fn(u64) -> String = O::WHY_NOT;
}

/// The additional operations of a queue pair of [`ExtendedPosting`], beyond the operations of
/// `ibv_post_send`: none (`()`), [`Flush`](crate::ext::persistence::Flush),
/// [`AtomicWrite`](crate::ext::persistence::AtomicWrite), or both. For SRD, use
/// [`Srd`](crate::transport::Srd), or `Srd` with RDMA WRITE, which older devices lack
/// ([R25.2](crate::guide::rules#r25-2), [R27.2](crate::guide::rules#r27-2)).
///
/// ```
/// # use proverbs::prelude::*;
/// use proverbs::transport::Srd;
/// use proverbs::ext::extended_posting::ExtendedPosting;
/// profile! { Spread { posting: ExtendedPosting<Srd> } }
/// profile! { Spreading { posting: ExtendedPosting<(Srd, wr::RdmaWrite)> } }
/// profile! { Flushing { posting: ExtendedPosting<ext::persistence::Flush> } }
/// profile! { Publishing { posting: ExtendedPosting<ext::persistence::AtomicWrite> } }
/// profile! { Logging { posting: ExtendedPosting<(ext::persistence::Flush, ext::persistence::AtomicWrite)> } }
/// # fn is_profile<P: Profile>() {}
/// # (is_profile::<Flushing>(), is_profile::<Publishing>(), is_profile::<Logging>());
/// # (is_profile::<Spread>(), is_profile::<Spreading>());
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an operation that `ExtendedPosting` takes by name",
    label = "not FLUSH and ATOMIC_WRITE",
    note = "`ExtendedPosting` has every other operation; `ExtendedPosting<ext::persistence::Flush>`, `ExtendedPosting<ext::persistence::AtomicWrite>` and `ExtendedPosting<(ext::persistence::Flush, ext::persistence::AtomicWrite)>` have these too, `ExtendedPosting<Srd>` and `ExtendedPosting<(Srd, wr::RdmaWrite)>` are for SRD"
)]
pub trait MoreOps: sealed::Sealed + 'static {
    /// Bits of `send_ops_flags`.
    #[doc(hidden)]
    const FLAGS: u64;

    /// The verb that posts a list.
    #[doc(hidden)]
    type Verb: Verb<Object = ibv_qp, Wr = ibv_send_wr>;

    /// [`Posting::CHECK`].
    #[doc(hidden)]
    const CHECK: CheckOps = |_, _, _| Ok(());

    /// [`Posting::WHY_NOT`].
    #[doc(hidden)]
    const WHY_NOT: fn(u64) -> String = |_| {
        ": the device has no such extended posting, use a profile with `OrdinaryPosting`".into()
    };
}

impl sealed::Sealed for () {}

impl MoreOps for () {
    const FLAGS: u64 = 0;
    type Verb = Session;
}

impl Writes for ExtendedPosting<()> {}
