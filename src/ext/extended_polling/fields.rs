//! The fields that extended polling supports, as types.

#![allow(unsafe_code)] // reads polled C structs

use std::marker::PhantomData;

use crate::allows::{Allows, call};
use crate::completion::wc::Promised;
use crate::memory::header::word;
use crate::sys::polling::adapter::Row;
use crate::sys::polling::wc_flags;

/// The device's clock when the work completed, as a field of [`WcFields`]
/// (`IBV_WC_EX_WITH_COMPLETION_TIMESTAMP` of ibv_create_cq_ex(3)).
#[doc(alias("IBV_WC_EX_WITH_COMPLETION_TIMESTAMP", "ibv_cq_ex"))]
#[derive(Debug)]
pub enum CompletionTs {}

/// The time of day when the work completed, as a field of [`WcFields`]
/// (`IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK` of ibv_create_cq_ex(3)).
#[doc(alias = "IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK")]
#[derive(Debug)]
pub enum CompletionWallclock {}

/// The path bits of the LID that a datagram was addressed to, as a field of [`WcFields`]
/// (`IBV_WC_EX_WITH_DLID_PATH_BITS` of ibv_create_cq_ex(3)).
#[doc(alias = "IBV_WC_EX_WITH_DLID_PATH_BITS")]
#[derive(Debug)]
pub enum DlidPathBits {}

/// The extra fields in the completions of a [`CompletionQueueEx`](super::CompletionQueueEx)
/// (`wc_flags` of ibv_create_cq_ex(3)).
///
/// Write them as a tuple of [`CompletionTs`], [`CompletionWallclock`] and [`DlidPathBits`], in this
/// order. Name a single field without a tuple. `()` is not a field set.
///
/// ```
/// # use proverbs::prelude::*;
/// use proverbs::ext::extended_polling::{CompletionQueueEx, CompletionTs, CompletionWallclock, WcFields};
/// type BothClocks = (CompletionTs, CompletionWallclock);
/// fn timed<F: WcFields>(context: &Context) -> Result<CompletionQueueEx<F>, proverbs::Error> {
///     context.cq(64).fields().create()
/// }
/// # let proverbs::loopback::Pair { context, .. } = proverbs::loopback::pair()?;
/// let cq = timed::<BothClocks>(&context)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a valid set of completion fields (ibv_create_cq_ex(3))",
    label = "fields are written in this order: (CompletionTs, CompletionWallclock, DlidPathBits), \
             without those that you do not need",
    note = "name one field directly or several in a tuple; `()` is not a field set"
)]
pub trait WcFields: sealed::Sealed + 'static {
    /// `wc_flags`, without the flags that all completions need.
    #[doc(hidden)]
    const WC_FLAGS: u64;
}

/// A set of fields that contains `Field`: the bound for reading that field
/// ([R14.4](crate::guide::rules#r14-4)). Use it in code that is generic over [`WcFields`].
///
/// ```
/// # use proverbs::prelude::*;
/// use proverbs::ext::extended_polling::{CompletionQueueEx, CompletionTs, HasField, WcFields};
/// /// The device's clock at the first completion.
/// fn first<F: WcFields + HasField<CompletionTs>>(
///     cq: &mut CompletionQueueEx<F>,
/// ) -> Result<Option<u64>, proverbs::Error> {
///     Ok(cq.poll_one()?.and_then(|(_, fields)| fields.completion_ts()))
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "the completion queue was created without the field `{Field}`",
    label = "ibv_create_cq_ex(3): only requested fields may be read",
    note = "create it with this field: `context.cq(cqe).fields::<{Field}>().create()`, or a tuple that has it"
)]
pub trait HasField<Field>: sealed::Sealed {}

mod sealed {
    use super::{CompletionTs, CompletionWallclock, DlidPathBits};

    pub trait Sealed {}
    impl Sealed for () {}
    impl Sealed for CompletionTs {}
    impl Sealed for CompletionWallclock {}
    impl Sealed for DlidPathBits {}
    impl Sealed for (CompletionTs, CompletionWallclock) {}
    impl Sealed for (CompletionTs, DlidPathBits) {}
    impl Sealed for (CompletionWallclock, DlidPathBits) {}
    impl Sealed for (CompletionTs, CompletionWallclock, DlidPathBits) {}
}

// Written out, because the compiler's messages would show a macro.

const TS: u64 = wc_flags::COMPLETION_TIMESTAMP;
const WALLCLOCK: u64 = wc_flags::COMPLETION_TIMESTAMP_WALLCLOCK;
const PATH_BITS: u64 = wc_flags::DLID_PATH_BITS;

impl WcFields for () {
    const WC_FLAGS: u64 = 0;
}
impl WcFields for CompletionTs {
    const WC_FLAGS: u64 = TS;
}
impl WcFields for CompletionWallclock {
    const WC_FLAGS: u64 = WALLCLOCK;
}
impl WcFields for DlidPathBits {
    const WC_FLAGS: u64 = PATH_BITS;
}
impl WcFields for (CompletionTs, CompletionWallclock) {
    const WC_FLAGS: u64 = TS | WALLCLOCK;
}
impl WcFields for (CompletionTs, DlidPathBits) {
    const WC_FLAGS: u64 = TS | PATH_BITS;
}
impl WcFields for (CompletionWallclock, DlidPathBits) {
    const WC_FLAGS: u64 = WALLCLOCK | PATH_BITS;
}
impl WcFields for (CompletionTs, CompletionWallclock, DlidPathBits) {
    const WC_FLAGS: u64 = TS | WALLCLOCK | PATH_BITS;
}

impl HasField<CompletionTs> for CompletionTs {}
impl HasField<CompletionWallclock> for CompletionWallclock {}
impl HasField<DlidPathBits> for DlidPathBits {}
impl HasField<CompletionTs> for (CompletionTs, CompletionWallclock) {}
impl HasField<CompletionWallclock> for (CompletionTs, CompletionWallclock) {}
impl HasField<CompletionTs> for (CompletionTs, DlidPathBits) {}
impl HasField<DlidPathBits> for (CompletionTs, DlidPathBits) {}
impl HasField<CompletionWallclock> for (CompletionWallclock, DlidPathBits) {}
impl HasField<DlidPathBits> for (CompletionWallclock, DlidPathBits) {}
impl HasField<CompletionTs> for (CompletionTs, CompletionWallclock, DlidPathBits) {}
impl HasField<CompletionWallclock> for (CompletionTs, CompletionWallclock, DlidPathBits) {}
impl HasField<DlidPathBits> for (CompletionTs, CompletionWallclock, DlidPathBits) {}

allows! { ['cq, X, F: HasField<X>] ReadFields<'cq, F>: ReadField<X>; }

/// The extra fields of one completion (ibv_create_cq_ex(3)). They come with the
/// [`Completion`](crate::Completion) and borrow the queue too, and stay valid after the completion
/// is consumed. [`CompletionQueueEx`](super::CompletionQueueEx) has an example.
pub struct ReadFields<'cq, F> {
    // Invariants:
    // `wc` and `row` belong to one completion, which was polled from a queue of these fields, and
    // are not written for `'cq`.
    wc: Promised<'cq>,
    row: *const Row,
    _fields: PhantomData<(&'cq Row, F)>,
}

impl<F> Clone for ReadFields<'_, F> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<F> Copy for ReadFields<'_, F> {}

impl<'cq, F> ReadFields<'cq, F> {
    /// # Safety
    /// `row` is the row of `wc`, polled from a queue of these fields, and neither is written for
    /// `'cq`.
    pub(super) unsafe fn new(wc: Promised<'cq>, row: *const Row) -> Self {
        ReadFields { wc, row, _fields: PhantomData }
    }

    fn row(&self) -> Row {
        // SAFETY: rows are initialised when they are created, and this one is not written for `'cq`
        // (invariant).
        unsafe { *self.row }
    }

    /// The device's clock when the work completed (`ibv_wc_read_completion_ts`), in ticks since an
    /// unspecified time; `None` if the work failed.
    /// [`DeviceAttrEx::clock`](crate::device::DeviceAttrEx::clock) has the length of a tick.
    #[doc(alias = "ibv_wc_read_completion_ts")]
    pub fn completion_ts(&self) -> Option<u64>
    where
        Self: Allows<call::ReadField<CompletionTs>>,
    {
        self.wc.success().map(|_| self.row().completion_ts)
    }

    /// The time of day when the work completed (`ibv_wc_read_completion_wallclock_ns`), in
    /// nanoseconds since 1970; `None` if the work failed.
    #[doc(alias = "ibv_wc_read_completion_wallclock_ns")]
    pub fn completion_wallclock_ns(&self) -> Option<u64>
    where
        Self: Allows<call::ReadField<CompletionWallclock>>,
    {
        self.wc.success().map(|_| self.row().completion_wallclock_ns)
    }

    /// The lowest bits of the LID that a datagram was addressed to, if the port has several LIDs
    /// (`ibv_wc_read_dlid_path_bits`); `None` if this is not a receive of a UD queue pair, or if it
    /// failed.
    #[doc(alias = "ibv_wc_read_dlid_path_bits")]
    pub fn dlid_path_bits(&self) -> Option<u8>
    where
        Self: Allows<call::ReadField<DlidPathBits>>,
    {
        const DATAGRAM: usize = word::RECEIVE | word::DATAGRAM;
        let is_datagram = self.wc.wr_id() as usize & DATAGRAM == DATAGRAM;
        self.wc.success().filter(|_| is_datagram).map(|_| self.row().dlid_path_bits)
    }
}

impl_debug!([F] ReadFields<'_, F>, |_| "ReadFields");
