//! Extended attributes of devices, and the abilities that they imply.

#![allow(unsafe_code)] // one verb

use std::convert::Infallible;
use std::marker::PhantomData;
use std::sync::{Arc, Weak};

use crate::device::{Context, DeviceAttrEx, DeviceCap};
use crate::sys::handle;
use crate::terms::error::Error;
use crate::terms::transport::Transport;

/// A feature that a device may lack, as a type: see [`Can`].
pub trait Ability: sealed::Sealed {
    /// The name used in messages.
    #[doc(hidden)]
    const NAME: &'static str;

    #[doc(hidden)]
    fn is_in(attr: &DeviceAttrEx) -> bool;
}

pub(crate) mod sealed {
    pub trait Sealed {}
}

macro_rules! abilities {
    ($($(#[$doc:meta])* $name:ident: $text:literal, |$attr:ident| $is:expr;)*) => {$(
        $(#[$doc])*
        pub enum $name {}

        impl sealed::Sealed for $name {}

        impl Ability for $name {
            const NAME: &'static str = $text;

            fn is_in($attr: &DeviceAttrEx) -> bool {
                $is
            }
        }
    )*};
}

abilities! {
    /// An [`Ability`]: shared receive queues can be resized (`IBV_DEVICE_SRQ_RESIZE`).
    ResizeSrq: "SRQ_RESIZE", |a| a.device.device_cap_flags.contains(DeviceCap::SRQ_RESIZE);
    /// An [`Ability`]: memory windows of type 2B (`IBV_DEVICE_MEM_WINDOW_TYPE_2B`).
    MemoryWindows2B: "MEM_WINDOW_TYPE_2B",
        |a| a.device.device_cap_flags.contains(DeviceCap::MEM_WINDOW_TYPE_2B);
    /// An [`Ability`]: device memory (`max_dm_size`), for [`alloc_dm`](crate::Context::alloc_dm).
    DeviceMemory: "device memory", |a| a.max_dm_size != 0;
    /// An [`Ability`] for regions, and for queue pairs that post FLUSH: FLUSH to global visibility.
    FlushGlobal: "FLUSH_GLOBAL", |a| a.has(38);
    /// An [`Ability`] for regions: FLUSH to persistence, so that data survives a loss of power.
    FlushPersistent: "FLUSH_PERSISTENT", |a| a.has(39);
    /// An [`Ability`]: timestamps of completions (`completion_timestamp_mask`).
    Timestamps: "completion timestamps", |a| a.completion_timestamp_mask != 0;
    /// An [`Ability`]: events of completion queues can be moderated (`cq_mod_caps`), for
    /// [`moderate`](crate::CompletionQueue::moderate).
    CqModeration: "moderation of completions",
        |a| a.max_cq_count != 0 && a.max_cq_period != 0;
}

/// An [`Ability`]: the send rate of queue pairs of transport `T` can be limited
/// (`packet_pacing_caps`), for [`limit_rate`](crate::QueuePair::limit_rate).
pub struct PacketPacing<T: Transport>(Infallible, PhantomData<T>);

impl<T: Transport> sealed::Sealed for PacketPacing<T> {}

impl<T: Transport> Ability for PacketPacing<T> {
    const NAME: &'static str = "packet pacing";

    fn is_in(attr: &DeviceAttrEx) -> bool {
        attr.qp_rate_limit_max != 0 && attr.packet_pacing_qpts.has(T::QP_TYPE)
    }
}

/// Proof that a device has the ability `A`. Query it once, and pass it to the calls that require
/// it.
///
/// ```
/// # use proverbs::prelude::*;
/// use proverbs::device::{Can, DeviceMemory, MemoryWindows2B};
/// # let proverbs::loopback::Pair { context, pd, pool, .. } = proverbs::loopback::pair()?;
/// let abilities = context.abilities()?;
/// let can: Can<DeviceMemory> = abilities.can().ok_or("no memory of its own")?;
/// let no_windows: Option<Can<MemoryWindows2B>> = abilities.can();
/// assert!(no_windows.is_none()); // or does not report it
/// assert!(can.is_of(&context));
/// let memory = context.alloc_dm(&can, 4096, 0)?;
/// # drop(memory);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Can<A: Ability> {
    context: Weak<handle::Context>,
    _ability: PhantomData<fn(A)>,
}

impl<A: Ability> Can<A> {
    /// Whether this is a proof for the device of `context`.
    pub fn is_of(&self, context: &Context) -> bool {
        std::ptr::eq(self.context.as_ptr(), Arc::as_ptr(&context.handle))
    }

    /// Checks that it is an ability of the device of this context. `what` names the ability and the
    /// object that it is for.
    pub(crate) fn check_is_of(
        &self,
        context: &Context,
        verb: &'static str,
        what: &'static str,
    ) -> Result<(), Error> {
        Error::unless_one_context(verb, what, self.is_of(context))
    }
}

impl<A: Ability> Clone for Can<A> {
    fn clone(&self) -> Self {
        Can { context: self.context.clone(), _ability: PhantomData }
    }
}

impl_debug!([A: Ability] Can<A>, |_| "Can({})", A::NAME);

/// The optional abilities of a device: [`Context::abilities`]. [`Can`] has an example.
pub struct Abilities {
    context: Weak<handle::Context>,
    attr: DeviceAttrEx,
}

impl Abilities {
    /// The proof that the device has the ability `A`; `None` if it does not.
    pub fn can<A: Ability>(&self) -> Option<Can<A>> {
        let can = || Can { context: self.context.clone(), _ability: PhantomData };
        A::is_in(&self.attr).then(can)
    }
}

impl Context {
    /// Returns the extended attributes of the device (`ibv_query_device_ex`). If the library or the
    /// provider does not have that verb, only the fields of
    /// [`DeviceAttr`](crate::device::DeviceAttr) are set.
    ///
    /// [Blocks](crate::guide::shutdown) while the device does not answer.
    ///
    /// # Errors
    /// [`ErrorKind::Os`](crate::ErrorKind::Os) with the errno.
    #[doc(alias = "ibv_query_device_ex")]
    pub fn query_device_ex(&self) -> Result<DeviceAttrEx, Error> {
        // SAFETY: its handle keeps the context open.
        let attr = unsafe { (self.handle.control().query_device_ex)(self.handle.as_ptr()) };
        let attr = attr.map_err(|errno| Error::os("ibv_query_device_ex", errno, ""))?;
        Ok(DeviceAttrEx::from_c(&attr))
    }

    /// Returns the optional abilities of the device; [`Can`] has an example.
    ///
    /// # Errors
    /// As for [`query_device_ex`](Self::query_device_ex).
    pub fn abilities(&self) -> Result<Abilities, Error> {
        let mut attr = self.query_device_ex()?;
        if self.handle.is_soft_roce() {
            attr.odp.without_copies();
        }
        Ok(Abilities { context: Arc::downgrade(&self.handle), attr })
    }
}

impl_debug!(Abilities, |_| "Abilities {{ .. }}");

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ext::persistence::AtomicWrite;
    use crate::sys::extended::ibv_device_attr_ex;
    use crate::sys::types::zeroed;
    use crate::terms::transport::{Rc, Uc};

    /// `IB_UVERBS_DEVICE_FLUSH_GLOBAL` and the following bits, as in the kernel's ib_user_verbs.h.
    #[test]
    fn abilities_of_persistent_memory_are_bits() {
        for bit in 0..64 {
            let c = ibv_device_attr_ex { device_cap_flags_ex: 1 << bit, ..zeroed() };
            let attr = DeviceAttrEx::from_c(&c);
            let is_in = [FlushGlobal::is_in, FlushPersistent::is_in, AtomicWrite::is_in];
            let has = is_in.map(|is_in| is_in(&attr));
            assert_eq!(has, [38, 39, 40].map(|its| its == bit), "{bit}");
        }
    }

    /// A limit of one is enough for an ability.
    #[test]
    fn the_least_of_an_ability_is_one() {
        let told = |set: fn(&mut ibv_device_attr_ex)| {
            let mut c = zeroed();
            set(&mut c);
            let attr = DeviceAttrEx::from_c(&c);
            let pacing = [PacketPacing::<Rc>::is_in(&attr), PacketPacing::<Uc>::is_in(&attr)];
            let is_in = [Timestamps::is_in, DeviceMemory::is_in, CqModeration::is_in];
            let has = is_in.map(|is_in| is_in(&attr));
            (has, pacing, attr.clock().is_some())
        };
        let (no, none) = ([false; 3], [false; 2]);
        assert_eq!(told(|_| ()), (no, none, false));
        let stamps = [true, false, false];
        assert_eq!(told(|c| c.completion_timestamp_mask = 1), (stamps, none, false));
        assert_eq!(told(|c| c.hca_core_clock = 1), (no, none, false));
        let both = told(|c| (c.completion_timestamp_mask, c.hca_core_clock) = (1, 1));
        assert_eq!(both, (stamps, none, true));
        assert_eq!(told(|c| c.max_dm_size = 1), ([false, true, false], none, false));
        assert_eq!(told(|c| c.cq_mod_caps.max_cq_count = 1), (no, none, false));
        assert_eq!(told(|c| c.cq_mod_caps.max_cq_period = 1), (no, none, false));
        let both = told(|c| {
            (c.cq_mod_caps.max_cq_count, c.cq_mod_caps.max_cq_period) = (1, 1);
        });
        assert_eq!(both, ([false, false, true], none, false));
        assert_eq!(told(|c| c.packet_pacing_caps.qp_rate_limit_max = 1), (no, none, false));
        assert_eq!(told(|c| c.packet_pacing_caps.supported_qpts = !0), (no, none, false));
        let both = told(|c| {
            c.packet_pacing_caps.qp_rate_limit_max = 1;
            c.packet_pacing_caps.supported_qpts = 1 << 3;
        });
        assert_eq!(both, (no, [false, true], false));
        let c = ibv_device_attr_ex { completion_timestamp_mask: 7, hca_core_clock: 9, ..zeroed() };
        let clock = DeviceAttrEx::from_c(&c).clock().unwrap();
        assert_eq!((clock.mask(), clock.khz()), (7, 9));
    }

    /// Each capability bit answers exactly one question.
    #[test]
    fn abilities_of_odp_are_bits() {
        let told = [0, 1, 2, 3].map(|bits| {
            let mut c: ibv_device_attr_ex = zeroed();
            c.odp_caps.general_caps = bits;
            let odp = DeviceAttrEx::from_c(&c).odp;
            (odp.is_supported, odp.is_implicit)
        });
        assert_eq!(told, [(false, false), (true, false), (false, true), (true, true)]);
    }
}
