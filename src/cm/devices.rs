//! The devices of ids, which stay open while anything uses them.
//!
//! librdmacm opens each device once for itself and closes it when the program exits, even while
//! threads still run. So this crate opens its own contexts for queue pairs; the kernel does not
//! distinguish them. A fabric shares its contexts, which close when nothing uses them.

// No model: one list is read and changed under its lock only, and no other lock is taken inside.

use std::sync::{Arc, Weak};

use super::id::CmId;
use super::space::PortSpace;
use super::state::{CmState, Mode};
use crate::allows::{Allows, call};
use crate::device::context::Context;
use crate::device::pd::ProtectionDomain;
use crate::sync::{Mutex, global, lock};
use crate::sys::device::Identity;
use crate::sys::{device, handle};
use crate::terms::error::Error;

struct Open {
    /// `None` if the context belongs to the provider.
    identity: Option<Identity>,
    context: Weak<handle::Context>,
    pd: Option<(Weak<handle::Pd>, u32)>,
}

global! { static OPEN: Mutex<Vec<Open>> = Mutex::new(Vec::new()); }

/// Returns the `known` value, or stores and returns the result of `make`. `all` is not locked
/// during `make`, because a device that stalls would block the ids of other devices.
fn known_or_made<T: Clone>(
    all: &Mutex<Vec<Open>>,
    known: impl Fn(&mut Vec<Open>) -> Option<T>,
    make: impl FnOnce() -> Result<T, Error>,
    keep: impl FnOnce(&mut Vec<Open>, &T),
) -> Result<T, Error> {
    if let Some(known) = known(&mut lock(all)) {
        return Ok(known);
    }
    let made = make()?;
    // Another thread may have made one too. Then `made` is dropped after the lock is released.
    let mut all = lock(all);
    Ok(known(&mut all).unwrap_or_else(|| {
        keep(&mut all, &made);
        made.clone()
    }))
}

impl<PS: PortSpace, S: CmState, M: Mode> CmId<PS, S, M> {
    /// The context that the id's provider shares, if any.
    fn shared(&self) -> Result<Option<Arc<handle::Context>>, Error> {
        let shared = self.core.id.context();
        shared.map_err(|errno| {
            Error::os("ibv_open_device", errno, "the device of this id was removed")
        })
    }

    /// The context of the device, which its provider may share.
    fn open(
        &self,
        all: &Mutex<Vec<Open>>,
        shared: Option<Arc<handle::Context>>,
        open_again: impl FnOnce() -> Result<Context, Error>,
    ) -> Result<Context, Error> {
        let identity = self.core.identity.filter(|_| shared.is_none());
        let known = |all: &mut Vec<Open>| {
            all.retain(|device| device.context.strong_count() != 0);
            let device = all.iter().find(|device| match &shared {
                Some(context) => device.context.as_ptr() == Arc::as_ptr(context),
                None => identity.is_some() && device.identity == identity,
            });
            device.and_then(|device| device.context.upgrade()).map(|handle| Context { handle })
        };
        let open = || match &shared {
            Some(handle) => Ok(Context { handle: handle.clone() }),
            None => open_again(),
        };
        known_or_made(all, known, open, |all, opened| {
            all.push(Open { identity, context: Arc::downgrade(&opened.handle), pd: None });
        })
    }

    /// A protection domain of this context, always the same one.
    fn pd_of(
        all: &Mutex<Vec<Open>>,
        context: &Context,
        alloc: impl FnOnce() -> Result<ProtectionDomain, Error>,
    ) -> Result<ProtectionDomain, Error> {
        let is_it = |device: &&mut Open| device.context.as_ptr() == Arc::as_ptr(&context.handle);
        let known = |all: &mut Vec<Open>| {
            all.iter_mut().find(is_it)?.pd.as_ref().and_then(ProtectionDomain::upgrade)
        };
        known_or_made(all, known, alloc, |all, made| {
            if let Some(device) = all.iter_mut().find(is_it) {
                device.pd = Some(made.downgrade());
            }
        })
    }

    /// Opens the device of the id again. Checks that it is not another device with the same name.
    fn open_again(&self) -> Result<Context, Error> {
        let name = self.device().unwrap_or_default();
        let gone = || {
            let what = format!("{name}: the device of this id was removed; resolve a new id");
            Error::os("ibv_open_device", libc::ENODEV, what)
        };
        let found = device::open_again(self.core.identity.ok_or_else(gone)?);
        let found = found.map_err(|errno| Error::os("ibv_open_device", errno, name))?;
        found.map(|handle| Context { handle: handle.into() }).ok_or_else(gone)
    }

    /// The context of the id's device. All ids on one device share it. It closes when nothing uses
    /// it.
    ///
    /// A [`Context`] that the program opened itself works as well.
    ///
    /// # Errors
    /// [`Os`](crate::ErrorKind::Os). ENODEV: the device was removed, even if another one has its
    /// name now. Otherwise the errno of `ibv_open_device`.
    #[doc(alias("rdma_cm_id", "verbs"))]
    pub fn context(&self) -> Result<Context, Error>
    where
        Self: Allows<call::UseDevice>,
    {
        self.open(&OPEN, self.shared()?, || self.open_again())
    }

    /// A protection domain of the device, the same for all ids on it (`id->pd`).
    ///
    /// # Errors
    /// As for [`context`](Self::context) and [`Context::alloc_pd`].
    pub fn pd(&self) -> Result<ProtectionDomain, Error>
    where
        Self: Allows<call::UseDevice>,
    {
        let context = self.context()?;
        Self::pd_of(&OPEN, &context, || context.alloc_pd())
    }

    /// Checks that the object of `context` is on this id's device. The kernel identifies a queue
    /// pair only by its number, and a queue pair of another device may have the same number.
    pub(super) fn check_context(&self, verb: &'static str, context: &Context) -> Result<(), Error> {
        let mine = self.device().unwrap_or_default();
        let is_mine = match self.shared()? {
            Some(shared) => Arc::ptr_eq(&shared, &context.handle),
            None => {
                let theirs = device::identity_of(&context.handle);
                theirs.is_some() && theirs == self.core.identity
            }
        };
        if is_mine {
            return Ok(());
        }
        let theirs = match context.name() {
            name if name == mine => format!("another device called {name}, such as a removed one"),
            name => name,
        };
        let asked = format!(
            "a queue pair on {theirs}, while the id is on {mine}: use the protection domain from \
             `CmId::pd`"
        );
        Err(Error::os(verb, libc::EINVAL, asked))
    }
}

#[cfg(all(test, feature = "loopback"))]
mod tests {
    use super::*;
    use crate::cm::id::Core;
    use crate::cm::space::Tcp;
    use crate::cm::state::BoundToDevice;
    use crate::loopback::Fabric;
    use crate::provider_tests::cm as stub;

    /// An id of a provider that does not share contexts.
    fn id(device: &str) -> CmId<Tcp, BoundToDevice> {
        let mut core = Core::new(stub::noting(7));
        core.device = Some((device.into(), 1));
        CmId::from_core(core)
    }

    /// A test device does not belong to an id of librdmacm, whatever its name.
    #[test]
    #[cfg_attr(miri, ignore = "eventfd(2)")]
    fn a_name_alone_makes_no_device_the_ids() {
        let device = Fabric::new().open_device();
        let pd = device.alloc_pd().unwrap();
        let error = id(&device.name()).check_context("v", &pd.context()).unwrap_err();
        assert_eq!(error.errno(), Some(libc::EINVAL));
        let same = format!("on another device called {}, such as a removed one,", device.name());
        assert!(error.to_string().contains(&same), "{error}");
        let error = id("rxe7").check_context("v", &pd.context()).unwrap_err().to_string();
        let named = format!("on {}, while the id is on rxe7", device.name());
        assert!(error.contains(&named), "{error}");
    }

    /// Two devices with the same name and address in memory are distinguished by the kernel's
    /// index. If there is no index, they are distinguished by libibverbs' objects.
    #[test]
    fn a_device_is_known_by_what_is_not_used_again() {
        let [old, new] = [Identity::for_tests(3, 0x1000), Identity::for_tests(4, 0x1000)];
        assert!(old == Identity::for_tests(3, 0x2000) && old != new);
        let [old, new] = [Identity::for_tests(-1, 0x1000), Identity::for_tests(-1, 0x2000)];
        assert!(old == Identity::for_tests(-1, 0x1000) && old != new);
        assert!(old == Identity::for_tests(3, 0x1000), "if one side does not know it");
    }

    /// An open device is found until it is closed.
    #[test]
    #[cfg_attr(miri, ignore = "eventfd(2)")]
    fn a_device_is_known_as_long_as_it_is_open() {
        let (id, all) = (id("any"), Mutex::new(Vec::new()));
        let fabrics = [(); 3].map(|()| Fabric::new());
        let found = |fabric: &Fabric| {
            let shared = fabric.open_device().handle;
            let context = id.open(&all, Some(shared), || unreachable!()).unwrap();
            (context, lock(&all).len())
        };
        let (first, count) = found(&fabrics[0]);
        assert_eq!((count, Arc::strong_count(&first.handle)), (1, 1));
        let (_second, count) = found(&fabrics[1]);
        assert_eq!(count, 2, "the first one is open");
        drop(first);
        let (_third, count) = found(&fabrics[2]);
        assert_eq!(count, 2, "the first one is closed");
    }

    /// A device that stalls while it is opened, or while a domain is allocated, does not block
    /// others. If two threads open one, both use the first.
    #[test]
    #[cfg_attr(miri, ignore = "eventfd(2)")]
    fn the_lock_is_free_while_a_device_is_asked() {
        let (mut id, all) = (id("any"), Mutex::new(Vec::new()));
        id.core.identity = Some(Identity::for_tests(3, 0x1000));
        let mut first = None;
        let context = id.open(&all, None, || {
            assert!(all.try_lock().is_ok(), "locked while the device is opened");
            first = Some(id.open(&all, None, || Ok(Fabric::new().open_device()))?);
            Ok(Fabric::new().open_device())
        });
        let (context, first) = (context.unwrap(), first.unwrap());
        assert!(Arc::ptr_eq(&context.handle, &first.handle));
        assert_eq!(lock(&all).len(), 1);
        type Id = CmId<Tcp, BoundToDevice>;
        let mut first = None;
        let pd = Id::pd_of(&all, &context, || {
            assert!(all.try_lock().is_ok(), "locked while a domain is made");
            first = Some(Id::pd_of(&all, &context, || context.alloc_pd())?);
            context.alloc_pd()
        });
        assert_eq!(pd.unwrap().id(), first.unwrap().id());
        assert!(Id::pd_of(&all, &context, || context.alloc_pd()).is_ok());
    }
}
