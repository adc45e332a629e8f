//! Memory that is registered and owned: the basis of pools and regions.

#![allow(unsafe_code)] // owns registered memory

use std::any::Any;
use std::ffi::c_int;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::time::Instant;

use bitflags::bitflags;

use crate::counters::type_tag;
use crate::device::{Ability, Context, FlushGlobal, FlushPersistent, ProtectionDomain};
use crate::memory::header_slab::HeaderSlab;
use crate::memory::open::{Open, read_volatile};
use crate::memory::owning_handle::HandleBytes;
use crate::memory::span::LONGEST_PIECE;
use crate::memory::{Container, Memory, OutOfBounds, Protection};
use crate::sys::control::{Answer, Created, Holds};
use crate::sys::handle;
use crate::sys::mem::locked::locked_memory;
use crate::sys::memory::{
    CHANGE_ACCESS, CHANGE_PD, CHANGE_TRANSLATION, ERR_DO_FORK_OLD, Rereg, ReregFailed,
};
use crate::sys::persist::{ACCESS_FLUSH_GLOBAL, ACCESS_FLUSH_PERSISTENT};
use crate::sys::provider::Provider;
use crate::sys::refusal::{not_on_iwarp, refusal};
use crate::sys::types::{ibv_access_flags, ibv_mr, ibv_sge};
use crate::terms::error::{Error, Refused};

const VERB: &str = "ibv_reg_mr";

bitflags! {
    /// `access` of ibv_reg_mr(3).
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) struct AccessFlags: u32 {
        const LOCAL_WRITE = ibv_access_flags::IBV_ACCESS_LOCAL_WRITE.0;
        const REMOTE_WRITE = ibv_access_flags::IBV_ACCESS_REMOTE_WRITE.0;
        const REMOTE_READ = ibv_access_flags::IBV_ACCESS_REMOTE_READ.0;
        const REMOTE_ATOMIC = ibv_access_flags::IBV_ACCESS_REMOTE_ATOMIC.0;
        const MW_BIND = ibv_access_flags::IBV_ACCESS_MW_BIND.0;
        const ON_DEMAND = ibv_access_flags::IBV_ACCESS_ON_DEMAND.0;
        const FLUSH_GLOBAL = ACCESS_FLUSH_GLOBAL;
        const FLUSH_PERSISTENT = ACCESS_FLUSH_PERSISTENT;
        const RELAXED_ORDERING = ibv_access_flags::IBV_ACCESS_RELAXED_ORDERING.0;
        /// The rights with which peers access memory, through the region or through a window.
        const EXPOSES = Self::REMOTE_WRITE.bits() | Self::REMOTE_READ.bits()
            | Self::REMOTE_ATOMIC.bits() | Self::MW_BIND.bits();
    }
}

/// Fails if the device does not support the FLUSH rights of a region.
#[cold]
fn can_flush(context: &Context, access: AccessFlags, len: usize) -> Result<(), Error> {
    let abilities = context.abilities()?;
    let asks = |flag| access.contains(flag);
    let lacks = if asks(AccessFlags::FLUSH_GLOBAL) && abilities.can::<FlushGlobal>().is_none() {
        FlushGlobal::NAME
    } else if asks(AccessFlags::FLUSH_PERSISTENT) && abilities.can::<FlushPersistent>().is_none() {
        FlushPersistent::NAME
    } else {
        return Ok(());
    };
    let asked = format!("{len} bytes, {access:?}");
    let lacks = format!("has no {lacks}");
    let instead = "register it without that right, and confirm each WRITE with a READ";
    Err(refusal(&context.handle, VERB, asked, &lacks, instead))
}

/// All types of rights include LOCAL_WRITE, which read-only memory cannot have (R6.3).
pub(crate) fn granted(access: AccessFlags, is_writable: bool) -> AccessFlags {
    if is_writable { access } else { access - AccessFlags::LOCAL_WRITE }
}

/// The memory for a region, and its bytes.
pub(crate) type NewMemory = (NonNull<[u8]>, AnyMemory);

/// A value that owns memory.
pub(crate) type AnyMemory = Box<dyn Any + Send>;

/// Returns the value with its original type.
pub(crate) fn as_given<T: 'static>(memory: Option<AnyMemory>) -> T {
    *memory.and_then(|memory| memory.downcast().ok()).expect("the original type")
}

/// Memory that is registered, and the value that owns it.
///
/// # Invariants
/// The `len` bytes at `base` are registered as `mr`. They belong to `memory`, as returned by
/// [`Memory::bytes`] after it was moved here for the last time, so the guarantees of `Memory` hold
/// for them. `memory` is neither accessed, nor moved out of its box, nor dropped before
/// `ibv_dereg_mr` returned 0 (R6.9). It is `None` only after it was returned.
///
/// If `memory` is not a [`Memory`], this crate does not access its bytes. The bytes of an `Opaque`
/// are mapped while its keeper lives, which stays in its box as a `Memory` does. For a `DmaBuf` or
/// a `Dm`, `base` is an address for the device, not a valid pointer, and the value may be accessed.
pub(crate) struct Registered {
    /// Before the handle, which keeps the domain: a keeper may deregister a C region there.
    memory: Option<AnyMemory>,
    mr: handle::Mr,
    base: *mut u8,
    len: usize,
    /// Whether the processor is known to be able to access the memory.
    has_bytes: bool,
    /// Whether peers have or had rights to it.
    is_exposed: bool,
    /// It was deregistered, but the device may have given up waiting for a peer's request that uses
    /// it. Then `mr` is not registered, and the memory is kept for the rest of the program.
    was_given_up: bool,
    /// Memory and a domain that the device may also use, after a change that failed.
    unknown: Option<(AnyMemory, Option<Arc<handle::Pd>>)>,
    pd: u32,
    /// The type tag of its pieces, without their lengths.
    type_tag: u64,
    /// The headers of its pieces, or of frozen buffers in it.
    slab: Arc<HeaderSlab>,
}

// SAFETY: the memory is owned, and `Send`. The handles to it decide which code may access its
// bytes.
unsafe impl Send for Registered {}
// SAFETY: shared access only returns addresses.
unsafe impl Sync for Registered {}

impl Registered {
    /// Registers the part of `memory` that `choose` returns, as an offset and a length within its
    /// bytes. Also returns the other value of `choose`. On failure, returns the memory.
    pub(crate) fn new<M: Memory, T>(
        pd: &ProtectionDomain,
        memory: M,
        access: AccessFlags,
        holds: Holds,
        choose: impl FnOnce(NonNull<[u8]>) -> Result<(usize, usize, T), Error>,
    ) -> Result<(Self, T), Refused<M>> {
        let mut memory = Box::new(memory);
        let bytes = memory.bytes();
        let access = (access, M::Protection::IS_WRITABLE);
        // SAFETY: the bytes belong to a `Memory` that is not moved out of its box.
        let made = unsafe { Self::in_box(pd, memory, bytes, access, holds, choose) };
        made.map_err(|(memory, error)| Refused::new(*memory, error))
    }

    /// Like `new`, for memory that was moved into its box for the last time, and the range that it
    /// keeps. The second part of the rights tells whether the range may be written.
    ///
    /// # Safety
    /// The range is mapped until `memory` is dropped or moved out of its box, for writes too if it
    /// may be written. The caller's type controls other accesses: a `Memory` allows none, and an
    /// `Opaque` does not provide safe access to the bytes.
    pub(crate) unsafe fn in_box<M: Any + Send, T>(
        pd: &ProtectionDomain,
        memory: Box<M>,
        bytes: NonNull<[u8]>,
        (access, is_writable): (AccessFlags, bool),
        holds: Holds,
        choose: impl FnOnce(NonNull<[u8]>) -> Result<(usize, usize, T), Error>,
    ) -> Result<(Self, T), (Box<M>, Error)> {
        let access = granted(access, is_writable);
        let handle = pd.handle();
        let control = handle.control();
        let register = || -> Result<_, Error> {
            let (offset, len, made) = choose(bytes)?;
            debug_assert!(offset.checked_add(len).is_some_and(|end| end <= bytes.len()));
            if len == 0 {
                let asked = "cannot register 0 bytes";
                return Err(Error::os(VERB, libc::EINVAL, asked));
            }
            let asked = || format!("{len} bytes, {access:?}");
            let context = &handle.parents().context;
            if access.contains(AccessFlags::REMOTE_ATOMIC) {
                let instead = "register without REMOTE_ATOMIC, and SEND a request to the peer";
                not_on_iwarp(context, VERB, asked, "no atomics", instead)?;
            }
            let wanted = access & (AccessFlags::FLUSH_GLOBAL | AccessFlags::FLUSH_PERSISTENT);
            if !wanted.is_empty() {
                can_flush(&Context { handle: context.clone() }, wanted, len)?;
            }
            // SAFETY: `choose` returned a part of the range.
            let base = unsafe { bytes.cast::<u8>().add(offset) }.as_ptr();
            // SAFETY: the protection domain is live. `memory` keeps the range valid for the
            // accesses that `access` allows (this function's contract), and is kept until the
            // region is deregistered.
            let mr = unsafe { (control.reg_mr)(handle.as_ptr(), base, len, access.bits(), holds) };
            let mr = mr.map_err(|errno| why_not(VERB, pd, len, asked(), errno))?;
            Ok((mr, base, len, made))
        };
        match register() {
            Ok((mr, base, len, made)) => {
                // SAFETY: the object was just created and has no other owner.
                let mr = unsafe { handle::Mr::new(mr, control, handle.clone()) };
                let is_exposed = access.intersects(AccessFlags::EXPOSES);
                Ok((Self::of(mr, pd, base, len, memory, is_exposed), made))
            }
            Err(error) => Err((memory, error)),
        }
    }

    /// Registers all of `memory`, which is then open to the device and to peers.
    pub(crate) fn all<M: Memory>(
        pd: &ProtectionDomain,
        memory: M,
        access: AccessFlags,
    ) -> Result<Self, Refused<M>> {
        let choose = |bytes: NonNull<[u8]>| Ok((0, bytes.len(), ()));
        Ok(Self::new(pd, memory, access, Holds::Open, choose)?.0)
    }

    /// Registers memory whose bytes this process cannot access: `len` bytes, whose addresses in
    /// work requests start at `base`. On failure, returns it with the errno.
    ///
    /// # Safety
    /// If `register` returns a region, the region belongs to the domain, and no other code
    /// deregisters it.
    pub(crate) unsafe fn without_bytes<M: Sync + Send + 'static>(
        pd: &ProtectionDomain,
        memory: M,
        base: usize,
        len: usize,
        register: impl FnOnce(&M, &handle::Pd) -> Created<ibv_mr>,
    ) -> Result<Self, (M, c_int)> {
        let handle = pd.handle();
        match register(&memory, handle) {
            Ok(mr) => {
                // SAFETY: the object was just created and has no other owner (this function's
                // contract).
                let mr = unsafe { handle::Mr::new(mr, handle.control(), handle.clone()) };
                let base = ptr::without_provenance_mut(base);
                // It is not exposed, because Rust code does not access it.
                let mut region = Self::of(mr, pd, base, len, Box::new(memory), false);
                region.has_bytes = false;
                Ok(region)
            }
            Err(errno) => Err((memory, errno)),
        }
    }

    /// The value that owns the memory, if the processor cannot access the bytes.
    ///
    /// # Panics
    /// If the value is not an `M`.
    pub(crate) fn owner<M: Sync + Send + 'static>(&self) -> &M {
        let memory = self.memory.as_deref().and_then(|memory| memory.downcast_ref());
        memory.expect("the original type")
    }

    /// A region that C registered, whose addresses in work requests start at `base`. If it is ours
    /// it is deregistered here before `memory` is dropped; otherwise C owns it until then.
    ///
    /// # Safety
    /// `mr` is a region of the domain. It is live until it is deregistered here, and no other code
    /// does so, or until `memory` is dropped. Its memory is mapped until then.
    pub(super) unsafe fn from_c<M: Any + Send>(
        pd: &ProtectionDomain,
        mr: NonNull<ibv_mr>,
        base: *mut u8,
        len: usize,
        memory: Box<M>,
        is_ours: bool,
    ) -> Self {
        let handle = pd.handle();
        let (control, parents) = (handle.control(), handle.clone());
        // SAFETY: the region is live, and has no other owner if it is ours. If not, it lives as
        // long as the memory (this function's contract), which is not dropped while the handle is
        // used.
        let mr = unsafe {
            if is_ours {
                handle::Mr::new(mr, control, parents)
            } else {
                handle::Mr::kept(mr, control, parents, Box::new(()))
            }
        };
        // Its rights are unknown, so it counts as exposed. If C owns it, the caller guarantees when
        // the memory is free. Whether the processor can access the bytes is unknown too.
        let mut region = Self::of(mr, pd, base, len, memory, is_ours);
        region.has_bytes = false;
        region
    }

    fn of<M: Any + Send>(
        mr: handle::Mr,
        pd: &ProtectionDomain,
        base: *mut u8,
        len: usize,
        memory: Box<M>,
        is_exposed: bool,
    ) -> Self {
        Registered {
            mr,
            base,
            len,
            memory: Some(memory),
            has_bytes: true,
            is_exposed,
            was_given_up: false,
            unknown: None,
            pd: pd.id(),
            type_tag: type_tag_of(pd),
            slab: HeaderSlab::new(pd.id()),
        }
    }

    /// Returns the value that owns the memory.
    ///
    /// # Panics
    /// If [`close`](Self::close) did not succeed before, or the value is not an `M`.
    pub(crate) fn give_back<M: 'static>(&mut self) -> M {
        assert!(self.mr.is_closed(), "the memory is still registered");
        as_given(self.memory.take())
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The address of the byte at `offset`, which is within the region.
    pub(crate) fn at(&self, offset: usize) -> *mut u8 {
        debug_assert!(offset < self.len());
        self.base.wrapping_add(offset)
    }

    /// The region as memory that others may access concurrently. Pools do not use it, because they
    /// own their bytes; nor do regions of read-only memory, or without bytes.
    pub(crate) fn open(&self) -> Open {
        // SAFETY: the region of the callers is in a `Memory` (their bounds require it), so the base
        // is not null. The bytes are valid while `self` lives, for writes too, and the callers do
        // not use the value longer than that. Rust code accesses the bytes of a region that is open
        // to the fabric only through such values. The device is not part of Rust's memory model.
        unsafe { Open::new(NonNull::new_unchecked(self.base), self.len()) }
    }

    /// Copies bytes out that others may be writing. The caller guarantees that the region is in a
    /// [`Memory`] with the protection `P`.
    #[inline(always)]
    pub(crate) fn read_at<P: Protection>(
        &self,
        offset: usize,
        out: &mut [u8],
    ) -> Result<(), OutOfBounds> {
        if P::IS_WRITABLE {
            return self.open().copy(offset, out);
        }
        self.check(offset, out.len())?;
        // SAFETY: within the region, whose base is not null, and which is valid for reads while
        // `self` lives. It is read-only memory, so no code of this process writes it (`Memory`).
        unsafe { read_volatile(NonNull::new_unchecked(self.base), offset, out) };
        Ok(())
    }

    /// Whether the processor can access the bytes, so that a provider can copy them.
    pub(crate) fn has_bytes(&self) -> bool {
        self.has_bytes
    }

    pub(crate) fn mr(&self) -> *mut ibv_mr {
        self.mr.as_ptr()
    }

    pub(crate) fn lkey(&self) -> u32 {
        // SAFETY: the region is registered while `self` lives.
        unsafe { (*self.mr.as_ptr()).lkey }
    }

    pub(crate) fn rkey(&self) -> u32 {
        // SAFETY: the region is registered while `self` lives.
        unsafe { (*self.mr.as_ptr()).rkey }
    }

    pub(crate) fn pd(&self) -> u32 {
        self.pd
    }

    /// The slab of the headers of its pieces, or of frozen buffers in it.
    #[inline(always)]
    pub(crate) fn slab(&self) -> &HeaderSlab {
        &self.slab
    }

    /// The bytes for a handle to `len` bytes at `offset`.
    #[inline(always)]
    #[allow(clippy::needless_question_mark)]
    pub(crate) fn piece(&self, offset: usize, len: usize) -> Result<HandleBytes, OutOfBounds> {
        // One comparison detects both rare cases: no bytes, and more than an element can have.
        let is_usual = len.wrapping_sub(1) < LONGEST_PIECE as usize;
        if !is_usual {
            // (Unwrapped and wrapped again, so that the usual result stays in registers.)
            return Ok(self.unusual_piece(offset, len)?);
        }
        self.check(offset, len)?;
        Ok(self.loan(self.at(offset), len as u32))
    }

    #[cold]
    #[inline(never)]
    fn unusual_piece(&self, offset: usize, len: usize) -> Result<HandleBytes, OutOfBounds> {
        match u32::try_from(len) {
            Ok(short @ ..=LONGEST_PIECE) => self.locate(offset, len).map(|at| self.loan(at, short)),
            _ => {
                let (offset, len) = (offset as u64, len as u64);
                Err(OutOfBounds::new(Container::Element, offset, len, LONGEST_PIECE.into()))
            }
        }
    }

    #[inline(always)]
    fn loan(&self, addr: *mut u8, len: u32) -> HandleBytes {
        HandleBytes { addr, len, lkey: self.lkey(), type_tag: type_tag::sized(self.type_tag, len) }
    }

    /// The address of `len` bytes at `offset`.
    #[inline(always)]
    pub(crate) fn locate(&self, offset: usize, len: usize) -> Result<*mut u8, OutOfBounds> {
        self.check(offset, len)?;
        // An empty piece at the end is legal. It gets the address of the last byte.
        Ok(self.at(offset.min(self.len() - 1)))
    }

    #[inline(always)]
    pub(crate) fn check(&self, offset: usize, len: usize) -> Result<(), OutOfBounds> {
        OutOfBounds::check(offset, len, self.len())
    }

    /// Whether other code registered it, so that we may not change it.
    pub(crate) fn is_elsewhere(&self) -> bool {
        self.mr.is_kept()
    }

    /// The context of the device.
    pub(crate) fn context(&self) -> Context {
        Context { handle: self.mr.parents().parents().context.clone() }
    }

    /// Re-registers: with the rights `access`, in the domain `pd`, over all of `memory`, each if
    /// given. Takes `memory`, and returns the previous memory if the region is in other memory now.
    ///
    /// On success and with `ERR_DO_FORK_OLD` the region has changed. With `ERR_INPUT` and
    /// `ERR_DONT_FORK_NEW` it is unchanged. With other codes its state is unknown: the caller hands
    /// out no part of it, and keeps both memories and both domains until it is deregistered.
    ///
    /// # Safety
    /// The region is in a [`Memory`]. The domain belongs to the same context. The guarantees of
    /// `memory` allow `access` (`is_writable` tells whether it can be written).
    pub(crate) unsafe fn rereg(
        &mut self,
        access: Option<(AccessFlags, bool)>,
        pd: Option<&ProtectionDomain>,
        memory: &mut Option<NewMemory>,
    ) -> Result<Option<AnyMemory>, ReregFailed> {
        let mut to =
            Rereg { flags: 0, pd: ptr::null_mut(), addr: ptr::null_mut(), length: 0, access: 0 };
        if let Some((access, is_writable)) = access {
            to.flags |= CHANGE_ACCESS;
            to.access = granted(access, is_writable).bits();
        }
        if let Some(pd) = pd {
            to.flags |= CHANGE_PD;
            to.pd = pd.handle().as_ptr();
        }
        if let Some((bytes, _)) = memory {
            to.flags |= CHANGE_TRANSLATION;
            (to.addr, to.length) = (bytes.as_ptr().cast(), bytes.len());
        }
        if let Some((access, _)) = access {
            // Before the verb, because a device that fails may have changed the rights.
            self.is_exposed |= access.intersects(AccessFlags::EXPOSES);
        }
        let rereg = self.mr.control().rereg_mr;
        // SAFETY: the region is live, and so is the domain, of the same context. The new memory
        // keeps its range valid for the rights of the region (this function's contract). It becomes
        // the region's memory, or the caller keeps it as long.
        match unsafe { rereg(self.mr.as_ptr(), to) } {
            Err(failed) if failed.code != ERR_DO_FORK_OLD => return Err(failed),
            _ => {}
        }
        // INVARIANT: from here on the region has the requested properties.
        if let Some(pd) = pd {
            // SAFETY: the region belongs to this domain now.
            unsafe { self.mr.set_parents(pd.handle().clone()) };
            (self.pd, self.type_tag, self.slab) =
                (pd.id(), type_tag_of(pd), HeaderSlab::new(pd.id()));
        }
        Ok(memory.take().and_then(|(_, new)| {
            (self.base, self.len) = (to.addr, to.length);
            self.memory.replace(new)
        }))
    }

    /// After a change that failed: keeps the memory and the domain that the device may use as well.
    pub(crate) fn keep_unknown(&mut self, memory: AnyMemory, pd: Option<&ProtectionDomain>) {
        self.unknown = Some((memory, pd.map(|pd| pd.handle().clone())));
    }

    /// Returns the memory that `keep_unknown` kept.
    ///
    /// # Panics
    /// As for [`give_back`](Self::give_back).
    pub(crate) fn give_unknown<N: 'static>(&mut self) -> N {
        assert!(self.mr.is_closed(), "the memory is still registered");
        as_given(self.unknown.take().map(|(memory, _)| memory))
    }

    /// `ibv_advise_mr` in the region's domain.
    pub(crate) fn advise(&self, advice: u32, flags: u32, list: &mut [ibv_sge]) -> Answer {
        let pd = self.mr.parents();
        // SAFETY: a region keeps its domain, which is live. The device accesses the ranges in the
        // list.
        unsafe { (self.mr.control().advise_mr)(pd.as_ptr(), advice, flags, list) }
    }

    /// The reason why the memory cannot be returned, if any: the provider may let a peer's request
    /// access it after `ibv_dereg_mr` returned 0.
    pub(crate) fn is_kept(&self) -> Option<Error> {
        self.given_up().or_else(|| self.may_be_touched_later().then(|| self.breaks_promise()))
    }

    fn breaks_promise(&self) -> Error {
        let context = &self.mr.parents().parents().context;
        let lacks = format!(
            "uses {}, which may let peers' requests access memory after deregistration",
            context.provider()
        );
        let asked = format!("the {} bytes of a region with remote rights", self.len);
        let instead = "drop the region: its memory is not reused (docs/providers.md)";
        refusal(context, "ibv_dereg_mr", asked, &lacks, instead)
    }

    /// Whether a peer's request may access the memory after `ibv_dereg_mr` returned 0.
    fn may_be_touched_later(&self) -> bool {
        self.was_given_up || self.is_exposed && !self.provider().ends_access_at_dereg()
    }

    fn provider(&self) -> Provider {
        self.mr.parents().parents().context.provider()
    }

    /// The reason why the region cannot be used, if the device gave it up.
    pub(crate) fn given_up(&self) -> Option<Error> {
        if !self.was_given_up {
            return None;
        }
        let asked = format!(
            "{} bytes: {} took so long to deregister them that it may have given up waiting for a \
             peer's request. They are deregistered, and their memory is not reused; drop this \
             object (docs/providers.md)",
            self.len,
            self.provider()
        );
        Some(Error::os("ibv_dereg_mr", libc::ETIMEDOUT, asked))
    }

    /// Deregisters now. If the device refuses, the memory stays registered and leaks. If the device
    /// may have given up waiting for a peer, the region is [kept](Self::is_kept).
    pub(crate) fn close(&mut self) -> Result<(), i32> {
        let limit = self.provider().gives_up_after().filter(|_| self.is_exposed);
        let Some(limit) = limit.filter(|_| !self.mr.is_closed()) else {
            return self.mr.close();
        };
        // SAFETY: the object is live because it is not closed.
        let mr = unsafe { self.mr.ptr().read() };
        let begun = Instant::now();
        self.mr.close()?;
        if begun.elapsed() >= limit {
            self.was_given_up = true;
            // The C object is gone. A copy without keys replaces it, because the region may be
            // returned to the program.
            let mr = Box::leak(Box::new(ibv_mr { lkey: 0, rkey: 0, ..mr }));
            let (control, parents) = (self.mr.control(), self.mr.parents().clone());
            // SAFETY: the copy is never freed, and its context and domain are kept. It is not
            // passed to a verb that needs a region: `rereg` and `close` check first
            // (`is_elsewhere`), and a bind uses only its key.
            self.mr = unsafe { handle::Mr::kept(mr.into(), control, parents, Box::new(())) };
        }
        Ok(())
    }

    /// Like `close`, for `verb`, which returns the memory.
    pub(crate) fn close_for(&mut self, verb: &'static str) -> Result<(), Error> {
        match self.is_kept() {
            Some(error) => Err(error),
            None => {
                self.close().map_err(|errno| Error::os(verb, errno, ""))?;
                self.is_kept().map_or(Ok(()), Err)
            }
        }
    }
}

/// The type tag of pieces of a region in this domain, without their lengths.
fn type_tag_of(pd: &ProtectionDomain) -> u64 {
    type_tag::of(pd.id(), type_tag::NO_POOL, 0)
}

impl Drop for Registered {
    fn drop(&mut self) {
        // (Twice, because a handle whose close failed once is closed again when it is dropped.)
        if self.close().or_else(|_| self.close()).is_err() {
            // The device still uses it. It is not closed a third time, because the result would be
            // lost.
            std::mem::forget((self.mr.take(), self.memory.take(), self.unknown.take()));
        } else if self.may_be_touched_later() {
            std::mem::forget((self.memory.take(), self.unknown.take()));
        }
        // (Otherwise the memory is dropped with this value, by code that may belong to the user and
        // panic.)
    }
}

/// The error if `len` bytes were not registered.
#[cold]
pub(crate) fn why_not(
    verb: &'static str,
    pd: &ProtectionDomain,
    len: usize,
    asked: String,
    errno: i32,
) -> Error {
    let most = pd.context().query_device().map_or(u64::MAX, |device| device.max_mr_size);
    if len as u64 > most {
        return Error::limit(verb, "length", len as u64, most);
    }
    match errno {
        libc::ENOMEM => locked_memory(verb, "VmPin", asked, len),
        libc::EFAULT => {
            let why = "a page is beyond the end of its file, or the kernel does not pin read-only \
                       files";
            Error::os(verb, errno, format!("{asked}; {why}"))
        }
        _ => Error::os(verb, errno, asked),
    }
}
