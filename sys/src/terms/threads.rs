//! How many threads may use the objects of a domain.

use std::marker::PhantomData;

/// Any thread may use the object, one at a time (`threads` of a [`Profile`]). It is `Send`, and the
/// provider uses locks.
///
/// ```
/// # use proverbs::prelude::*;
/// use proverbs::qp::AnyThread;
/// # let proverbs::loopback::Pair { context, .. } = proverbs::loopback::pair()?;
/// let cq: CompletionQueue<Buf, AnyThread> = context.create_cq(8)?; // that is `CompletionQueue`
/// std::thread::spawn(move || drop(cq)).join().map_err(|_| "panicked")?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// [`Profile`]: https://docs.rs/proverbs/latest/proverbs/trait.Profile.html
#[derive(Debug)]
pub enum AnyThread {}

/// The object is in a lane (`threads` of a [`Profile`]). It stays on the thread that made it, so it
/// is not `Send`, and the provider may omit its locks (ibv_alloc_td(3)). See [`Lane`].
///
/// [`Lane`]: https://docs.rs/proverbs/latest/proverbs/device/struct.Lane.html
/// [`Profile`]: https://docs.rs/proverbs/latest/proverbs/trait.Profile.html
pub struct InLane(PhantomData<StaysOnItsThread>);

/// Keeps the members of a lane on the thread that made them.
///
/// The type is neither `Send` nor `Sync`, and has a name for the error message.
pub type StaysOnItsThread = dyn AllocLaneOnItsThread;

/// Appears in the `!Send` diagnostic of the members of a lane.
pub trait AllocLaneOnItsThread {}

/// [`AnyThread`] or [`InLane`] (ibv_alloc_td(3)), in a [`Profile`]: the threads that may use a
/// queue pair, the queues that it is created on and their domain.
///
/// Objects of a lane stay on its thread ([R17.8],
/// [R17.9]).
///
/// ```
/// # use proverbs::prelude::*;
/// use proverbs::qp::Threads;
/// /// On a domain for any thread, and in a lane.
/// fn connected<L: Threads, P: Profile<Threads = L, Receive = OwnRq>>(
///     pd: &ProtectionDomain<L>,
///     cq: &CompletionQueue<P::Entry, L>,
/// ) -> Result<QueuePair<Rc, Reset, P>, proverbs::Error> {
///     pd.create_qp(cq, cq, Depth { send: 4, recv: 4 })
/// }
/// # let proverbs::loopback::Pair { context, pd, .. } = proverbs::loopback::pair()?;
/// connected::<_, DefaultProfile>(&pd, &context.create_cq(16)?)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// [R17.8]: https://docs.rs/proverbs/latest/proverbs/guide/rules/index.html#r17-8
/// [R17.9]: https://docs.rs/proverbs/latest/proverbs/guide/rules/index.html#r17-9
/// [`Profile`]: https://docs.rs/proverbs/latest/proverbs/trait.Profile.html
pub trait Threads: sealed::Sealed + 'static {
    #[doc(hidden)]
    const IS_LANE: bool;
}
impl Threads for AnyThread {
    const IS_LANE: bool = false;
}
impl Threads for InLane {
    const IS_LANE: bool = true;
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::AnyThread {}
    impl Sealed for super::InLane {}
}
