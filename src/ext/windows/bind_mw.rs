//! BIND_MW.

use std::marker::PhantomData;
use std::sync::Arc;

use super::{BindsTo, BindsWindows, MemoryWindow, REMOTE, RIGHTS, Revocable, WindowEntry};
use crate::allows::{Allows, RuledBy, call};
use crate::memory::opaque::Opaque;
use crate::memory::own::{Memory, RegistersAs};
use crate::memory::region::MemoryRegion;
use crate::memory::registered::Registered;
use crate::memory::remote::RemoteSlice;
use crate::memory::rights::Access;
use crate::memory::window::{Last, Opened, Range, Window};
use crate::profile::{Initiator, Posting};
use crate::rules::{CreatedFor, IssuedBy, PostOn};
use crate::sys::data::Operands;
use crate::sys::memory::ZERO_BASED;
use crate::sys::types::ibv_wr_opcode;
use crate::sys::types::raw::{bind_mw_t, ibv_mw_bind_info};
use crate::terms::error::{Error, Refused};
use crate::terms::transport::Rc;
use crate::work::address::Connected;
use crate::work::flags::{AlwaysSignaled, SendFlags, Unfenced};
use crate::work::opcode::{Opcode, sealed};
use crate::work::request::{Use, WorkRequest, request};
use crate::work::wc_opcode::WcOpcode;

const VERB: &str = "ibv_bind_mw";

/// BIND_MW (`IBV_WR_BIND_MW`, RC only): binds a type 2 window to a range of a region, with the
/// rights `A` and a new key.
///
/// The completion returns the window as [`AnyBuf::Window`](crate::memory::AnyBuf). So the entry of
/// the profile must be [`AnyBuf`](crate::memory::AnyBuf), and its signaling
/// [`SignalAll`](crate::qp::SignalAll). [`MemoryWindow`] has an example.
///
/// A message that is posted later on the same queue pair can carry the key before the bind has
/// completed. If the bind fails, so does the message ([R19.3](crate::guide::rules#r19-3)).
///
/// ```
/// # use proverbs::prelude::*;
/// use proverbs::ext::windows::{LentWindow, Revocable, Windowed};
/// # profile! { Windows { entry: AnyBuf } }
/// # let proverbs::loopback::Pair { mut a, mut b, mut cq, pd, .. } =
/// #     proverbs::loopback::pair_of::<Windows>()?;
/// let region = pd.register::<Windowed<LocalWrite>>(4096)?;
/// let bind = ext::windows::BindMw::<RemoteWrite>::new(a.alloc_mw()?, &region, 1024..2048)?.zero_based();
/// let (bind, lent) = bind.lend();
/// # b.post_recv(wr::Recv::empty())?;
/// # let tell = wr::SendWithImm::new(wr::Empty, 1);
/// # let told = lent.to_bytes();
/// // (`tell` is a SEND of `lent.to_bytes()`.)
/// post_send!(a, [bind, tell.fence()])?;
/// # let mut window = None;
/// # for entry in proverbs::loopback::poll(&mut cq, 3)?.into_iter().flatten() {
/// #     if let AnyBuf::Window(entry) = entry { window = Some(entry); }
/// # }
/// # let window = window.ok_or("no window")?;
/// let window: LentWindow = window.into_lent()?;
///
/// // The peer invalidates it:
/// # a.post_recv(wr::Recv::empty())?;
/// let lent = Revocable::<RemoteWrite>::from_bytes(&told).ok_or("other rights")?;
/// b.post_send(ext::windows::SendWithInv::new(wr::Empty, lent))?;
/// # let mut window = Some(window);
/// # let mut back = None;
/// # while back.is_none() {
/// for completion in cq.poll()? {
/// #     let Some(lent) = window.take() else { break };
///     match lent.revoked(completion) {
///         // Peers can no longer write there. The completion is consumed; its message is not.
///         Ok((window, message)) => back = Some((window, message)),
///         Err((still, _other)) => window = Some(still),
///     }
/// }
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias("IBV_WR_BIND_MW", "ibv_inc_rkey", "ibv_mw_bind_info", "mw_access_flags"))]
#[doc(alias("ibv_send_wr", "rkey", "bind_info", "ibv_wr_bind_mw", "IBV_QP_EX_WITH_BIND_MW"))]
pub struct BindMw<A = ()> {
    bind: bind_mw_t,
    _rights: PhantomData<fn() -> A>,
}

/// A bind that can be posted.
pub(super) type Bind<A> = WorkRequest<BindMw<A>, WindowEntry, Connected, Unfenced, AlwaysSignaled>;

impl<A: Access> BindMw<A> {
    /// Binds `window` to the bytes `range` of `region` only ([R6.11](crate::guide::rules#r6-11)).
    /// The rights of the region's key do not matter, but the region's memory must be writable if
    /// peers can write through the window. The region can be in [`Opaque`](crate::memory::Opaque)
    /// memory.
    ///
    /// # Errors
    /// [`ErrorKind::PdMismatch`](crate::ErrorKind::PdMismatch) if the region belongs to another
    /// protection domain; [`ErrorKind::Os`](crate::ErrorKind::Os) with EINVAL if the range is empty
    /// or not inside the region ([R1.7](crate::guide::rules#r1-7)). The error contains the window.
    pub fn new<R, M>(
        window: MemoryWindow,
        region: &MemoryRegion<R, M>,
        range: std::ops::Range<usize>,
    ) -> Result<Bind<A>, Refused<MemoryWindow>>
    where
        R: Access,
        MemoryRegion<R, M>: Allows<call::BindWindow<A>>,
    {
        let (opened, registered) =
            or_refused!(window, range_of::<A, R, M>(&window.0, region, range));
        let mut window = window.0;
        let rkey = window.bind(opened.range, registered);
        Ok(bind(window, rkey, opened.info()))
    }
}

allows! {
    [A: BindsTo<R>, R: BindsWindows, M: RuledBy<call::BindWindow<A>, Part: RegistersAs<A>>]
        MemoryRegion<R, M>: BindWindow<A>;
}

impl<A, M: Memory> RuledBy<call::BindWindow<A>> for M {
    type Part = M::Protection;
}
// Its contract names all writes that the region's rights allow, and all rights include LOCAL_WRITE.
impl<A, K, P> RuledBy<call::BindWindow<A>> for Opaque<K, P> {
    type Part = P;
}

/// The range that a window with the rights `A` is bound to, if it is valid.
pub(super) fn range_of<A, R, M>(
    window: &Window,
    region: &MemoryRegion<R, M>,
    range: std::ops::Range<usize>,
) -> Result<(Opened, Arc<Registered>), Error>
where
    A: Access,
    R: Access,
    MemoryRegion<R, M>: Allows<call::BindWindow<A>>,
{
    let registered = region.shared();
    let (start, len) = (range.start, range.len());
    let is_one = registered.pd() == window.core().of.pd();
    Error::unless_one_pd(VERB, "the memory window and the region", is_one)?;
    if len == 0 || registered.check(start, len).is_err() {
        let asked = format!("bytes {range:?} of a region of {}", region.len());
        return Err(Error::os(VERB, libc::EINVAL, asked));
    }
    let addr = registered.at(start).expose_provenance() as u64;
    let range = Range { addr, len: len as u64, rights: A::FLAGS & RIGHTS };
    Ok((Opened { range, mr: registered.mr() }, registered))
}

impl Opened {
    pub(super) fn info(self) -> ibv_mw_bind_info {
        let Opened { range, mr } = self;
        let mw_access_flags = range.rights & REMOTE;
        ibv_mw_bind_info { mr, addr: range.addr, length: range.len, mw_access_flags }
    }
}

/// Binds `window`, with a new key if it is a type 2 window.
pub(super) fn bind<A>(window: Window, rkey: u32, bind_info: ibv_mw_bind_info) -> Bind<A> {
    let bind = bind_mw_t { mw: window.core().mw, rkey, bind_info };
    told(BindMw { bind, _rights: PhantomData }, WindowEntry(window))
}

fn told<A>(op: BindMw<A>, window: WindowEntry) -> Bind<A> {
    request(op, window, Use::Send).with(|connected| connected, SendFlags::empty())
}

impl<A: Access> Bind<A> {
    /// Makes the peer's addresses start at 0 instead of at the address in this process
    /// (`IBV_ACCESS_ZERO_BASED`).
    pub fn zero_based(mut self) -> Self {
        self.op.bind.bind_info.mw_access_flags |= ZERO_BASED;
        self.data.0.core_mut().range.addr = 0;
        self
    }

    /// The remote slice of the window once it is bound, for a later message in the same queue
    /// ([R19.3](crate::guide::rules#r19-3)).
    pub fn remote(&self) -> RemoteSlice<A> {
        let range = self.data.0.core().range;
        RemoteSlice::from_parts(range.addr, range.len, self.op.bind.rkey)
    }

    /// Binds the window for a peer that will invalidate it with
    /// [`SendWithInv`](crate::ext::windows::SendWithInv). Send the slice in a later message in the
    /// same queue ([R19.3](crate::guide::rules#r19-3)). The completion returns a
    /// [`LentWindow`](crate::ext::windows::LentWindow).
    pub fn lend(mut self) -> (Bind<()>, Revocable<A>) {
        let lent = Revocable::new(self.remote());
        self.data.0.core_mut().last = Last::Lend;
        (told(BindMw { bind: self.op.bind, _rights: PhantomData }, self.data), lent)
    }
}

impl<A> sealed::Sealed for BindMw<A> {}

impl<A> Opcode for BindMw<A> {
    type Addr = ();

    const CODE: u32 = ibv_wr_opcode::IBV_WR_BIND_MW;
    const NAME: &'static str = "BIND_MW";
    const COMPLETES_AS: WcOpcode = WcOpcode::BindMw;

    #[inline(always)]
    fn emit(self, to: &mut Operands<'_>) {
        to.bind(self.bind);
    }
}

#[diagnostic::do_not_recommend]
impl<A> PostOn<Rc> for BindMw<A> {}
impl<I: Initiator, A> IssuedBy<I> for BindMw<A> {}
impl<X: Posting, A> CreatedFor<X> for BindMw<A> {}
