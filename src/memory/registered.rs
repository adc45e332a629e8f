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
        /// The rights by which peers reach memory, through the region or through a window.
        const EXPOSES = Self::REMOTE_WRITE.bits() | Self::REMOTE_READ.bits()
            | Self::REMOTE_ATOMIC.bits() | Self::MW_BIND.bits();
    }
}

/// Whether the device has what a FLUSH of a region needs.
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
    let instead = "register it without that right, and let a READ behind the WRITE tell";
    Err(refusal(&context.handle, VERB, asked, &lacks, instead))
}

/// Every right of a type includes LOCAL_WRITE, which read-only memory cannot have (R6.3).
pub(super) fn granted(access: AccessFlags, is_writable: bool) -> AccessFlags {
    if is_writable { access } else { access - AccessFlags::LOCAL_WRITE }
}

/// Memory that a region is to be in, and its bytes.
pub(crate) type NewMemory = (NonNull<[u8]>, AnyMemory);

/// A value that owns memory.
pub(crate) type AnyMemory = Box<dyn Any + Send>;

/// The value of the type that it was given as.
pub(super) fn as_given<T: 'static>(memory: Option<AnyMemory>) -> T {
    *memory.and_then(|memory| memory.downcast().ok()).expect("the type that was given")
}

/// Memory that is registered, and the value that owns it.
///
/// # Invariants
/// The `len` bytes at `base` are registered as `mr`. They are of `memory`, as its [`Memory::bytes`]
/// said after it was moved here for the last time, so what its implementation promises holds for
/// them. `memory` is neither touched, nor moved out of its box, nor dropped before `ibv_dereg_mr`
/// returned 0 (R6.9). It is `None` only once it was given back.
///
/// Where `memory` is no [`Memory`], this crate touches no bytes. Those of an `Opaque` are mapped
/// while its keeper lives, which stays in its box as a `Memory` does. For a `DmaBuf` or a `Dm`,
/// `base` is an address of the device's, which points at nothing, and the value may be looked at.
pub(crate) struct Registered {
    /// Before the handle, which holds the domain: a keeper may deregister a region of C's there.
    memory: Option<AnyMemory>,
    mr: handle::Mr,
    base: *mut u8,
    len: usize,
    is_writable: bool,
    /// Whether the processor can access the memory, for all that is known.
    has_bytes: bool,
    /// Whether peers have or had a right to it.
    is_exposed: bool,
    /// It was deregistered, but the device may have given up waiting for a peer's request that
    /// uses it. Then `mr` is not registered, and the memory is kept for the rest of the program.
    was_given_up: bool,
    /// Memory and a domain that the device may also have, after a change that failed.
    unknown: Option<(AnyMemory, Option<Arc<handle::Pd>>)>,
    pd: u32,
    /// The type tag of its pieces, but for their lengths.
    type_tag: u64,
    /// The headers of its pieces, or of frozen buffers in it.
    slab: Arc<HeaderSlab>,
}

// SAFETY: the memory is owned, and `Send`. The handles to it decide which code may touch its bytes.
unsafe impl Send for Registered {}
// SAFETY: shared access gives addresses only.
unsafe impl Sync for Registered {}

impl Registered {
    /// Registers that part of `memory` which `choose` names, as an offset and a length within its
    /// bytes, and returns what else `choose` made. A refusal gives the memory back.
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
        // SAFETY: the bytes are those of a `Memory`, which is not moved out of its box.
        let made = unsafe { Self::in_box(pd, memory, bytes, access, holds, choose) };
        made.map_err(|(memory, error)| Refused::new(*memory, error))
    }

    /// The same for memory that was moved into its box for the last time, and the range that it
    /// keeps. With the rights goes whether that may be written.
    ///
    /// # Safety
    /// The range is mapped until `memory` is dropped or moved out of its box, for writes too if it
    /// may be written. What else uses it, the caller's type keeps apart: a `Memory` lets nothing,
    /// and an `Opaque` has no safe access to bytes.
    pub(super) unsafe fn in_box<M: Any + Send, T>(
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
                let asked = "0 bytes: memory that is registered has some";
                return Err(Error::os(VERB, libc::EINVAL, asked));
            }
            let asked = || format!("{len} bytes, {access:?}");
            let context = &handle.parents().context;
            if access.contains(AccessFlags::REMOTE_ATOMIC) {
                let instead = "register without REMOTE_ATOMIC, and let a SEND ask its receiver";
                not_on_iwarp(context, VERB, asked, "no atomics", instead)?;
            }
            let wanted = access & (AccessFlags::FLUSH_GLOBAL | AccessFlags::FLUSH_PERSISTENT);
            if !wanted.is_empty() {
                can_flush(&Context { handle: context.clone() }, wanted, len)?;
            }
            // SAFETY: `choose` returned a part of the range.
            let base = unsafe { bytes.cast::<u8>().add(offset) }.as_ptr();
            // SAFETY: the protection domain is live. `memory` keeps the range valid for what
            // `access` allows (this function's contract), and is kept until the region is
            // deregistered.
            let mr = unsafe { (control.reg_mr)(handle.as_ptr(), base, len, access.bits(), holds) };
            let mr = mr.map_err(|errno| why_not(VERB, pd, len, asked(), errno))?;
            Ok((mr, base, len, made))
        };
        match register() {
            Ok((mr, base, len, made)) => {
                // SAFETY: the object was just created, and has no other owner.
                let mr = unsafe { handle::Mr::new(mr, control, handle.clone()) };
                let is_exposed = access.intersects(AccessFlags::EXPOSES);
                Ok((Self::of(mr, pd, base, len, memory, is_writable, is_exposed), made))
            }
            Err(error) => Err((memory, error)),
        }
    }

    /// Registers all of `memory`, to be open to the device and to peers.
    pub(crate) fn all<M: Memory>(
        pd: &ProtectionDomain,
        memory: M,
        access: AccessFlags,
    ) -> Result<Self, Refused<M>> {
        let choose = |bytes: NonNull<[u8]>| Ok((0, bytes.len(), ()));
        Ok(Self::new(pd, memory, access, Holds::Open, choose)?.0)
    }

    /// Memory of which this process has no bytes: `len` of them, whose addresses in work requests
    /// begin at `base`. A refusal gives it back, with the errno.
    ///
    /// # Safety
    /// If `register` returns a region, it is of the domain, and nothing else deregisters it.
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
                // SAFETY: the object was just created, and has no other owner (this function's
                // contract).
                let mr = unsafe { handle::Mr::new(mr, handle.control(), handle.clone()) };
                let base = ptr::without_provenance_mut(base);
                // It is not exposed: nothing of Rust's is there to be touched.
                let mut region = Self::of(mr, pd, base, len, Box::new(memory), true, false);
                region.has_bytes = false;
                Ok(region)
            }
            Err(errno) => Err((memory, errno)),
        }
    }

    /// The value that owns memory without bytes.
    ///
    /// # Panics
    /// If `M` is another type.
    pub(crate) fn owner<M: Sync + Send + 'static>(&self) -> &M {
        let memory = self.memory.as_deref().and_then(|memory| memory.downcast_ref());
        memory.expect("the type that was given")
    }

    /// A region that C registered, whose addresses in work requests begin at `base`. If it is ours
    /// it is deregistered here before `memory` is dropped; otherwise it is C's until then.
    ///
    /// # Safety
    /// `mr` is a region of the domain. It is live until it is deregistered here, which nothing else
    /// does, or until `memory` is dropped. Its memory is mapped until then.
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
        // long as the memory (this function's contract), which nothing drops while the handle is
        // used.
        let mr = unsafe {
            if is_ours {
                handle::Mr::new(mr, control, parents)
            } else {
                handle::Mr::kept(mr, control, parents, Box::new(()))
            }
        };
        // Nobody knows which rights it has, so it counts as exposed; but if it is C's, the caller
        // promises when the memory is free. Nor does anybody know whether it has bytes.
        let mut region = Self::of(mr, pd, base, len, memory, true, is_ours);
        region.has_bytes = false;
        region
    }

    fn of<M: Any + Send>(
        mr: handle::Mr,
        pd: &ProtectionDomain,
        base: *mut u8,
        len: usize,
        memory: Box<M>,
        is_writable: bool,
        is_exposed: bool,
    ) -> Self {
        Registered {
            mr,
            base,
            len,
            memory: Some(memory),
            is_writable,
            has_bytes: true,
            is_exposed,
            was_given_up: false,
            unknown: None,
            pd: pd.id(),
            type_tag: type_tag_of(pd),
            slab: HeaderSlab::new(pd.id()),
        }
    }

    /// The value that owns the memory.
    ///
    /// # Panics
    /// If [`close`](Self::close) did not succeed before, or `M` is another type.
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

    /// The region as memory that others may touch meanwhile. Pools do not use it, since they own
    /// their bytes; nor do regions of read-only memory, or without bytes.
    pub(crate) fn open(&self) -> Open {
        debug_assert!(self.is_writable);
        // SAFETY: the callers' region is in a `Memory` (asked by their bounds), so the base is not
        // null. The bytes are valid while `self` lives, for writes too, and the callers use the
        // value no longer. Rust code touches the bytes of a region that is open to the fabric
        // through such values only; the device, which Rust does not see, is no part of its memory
        // model.
        unsafe { Open::new(NonNull::new_unchecked(self.base), self.len()) }
    }

    /// Copies bytes out that others may be writing. The region is in a [`Memory`] with the
    /// protection `P`.
    #[inline(always)]
    pub(crate) fn read_at<P: Protection>(
        &self,
        offset: usize,
        out: &mut [u8],
    ) -> Result<(), OutOfBounds> {
        debug_assert_eq!(self.is_writable, P::IS_WRITABLE);
        if P::IS_WRITABLE {
            return self.open().copy(offset, out);
        }
        self.check(offset, out.len())?;
        // SAFETY: within the region, whose base is not null, and which is valid for reads while
        // `self` lives. It is read-only memory, so nothing in this process writes it (`Memory`).
        unsafe { read_volatile(NonNull::new_unchecked(self.base), offset, out) };
        Ok(())
    }

    /// Whether a provider may copy there by the processor.
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

    /// What a handle to `len` bytes from `offset` on is made of.
    #[inline(always)]
    #[allow(clippy::needless_question_mark)]
    pub(crate) fn piece(&self, offset: usize, len: usize) -> Result<HandleBytes, OutOfBounds> {
        // One comparison for what is seldom: no bytes, and more than an element can have.
        let is_usual = len.wrapping_sub(1) < LONGEST_PIECE as usize;
        if !is_usual {
            // (Taken out of the result, so that the usual one stays in registers.)
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

    /// Where `len` bytes from `offset` on begin.
    #[inline(always)]
    pub(crate) fn locate(&self, offset: usize, len: usize) -> Result<*mut u8, OutOfBounds> {
        self.check(offset, len)?;
        // An empty piece at the end is legal; it gets the address of the last byte.
        Ok(self.at(offset.min(self.len() - 1)))
    }

    #[inline(always)]
    pub(crate) fn check(&self, offset: usize, len: usize) -> Result<(), OutOfBounds> {
        OutOfBounds::check(offset, len, self.len())
    }

    /// Whether it was registered elsewhere, and is not ours to change.
    pub(crate) fn is_elsewhere(&self) -> bool {
        self.mr.is_kept()
    }

    /// The device's context.
    pub(crate) fn context(&self) -> Context {
        Context { handle: self.mr.parents().parents().context.clone() }
    }

    /// Re-registers: with the rights `access`, in the domain `pd`, over all of `memory`, each if
    /// there is one. It takes `memory`, and gives back that which the region was in, if it is in
    /// another one now.
    ///
    /// On success and with `ERR_DO_FORK_OLD` the region has changed. With `ERR_INPUT` and
    /// `ERR_DONT_FORK_NEW` it has not. With other codes nobody knows: the caller hands out nothing
    /// of it, and keeps both memories and both domains until it is deregistered.
    ///
    /// # Safety
    /// The region is in a [`Memory`]. The domain is of the same context. What `memory` promises
    /// allows `access` (`is_writable` says that it can be written).
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
            // Before the verb: a device that fails may have changed the rights.
            self.is_exposed |= access.intersects(AccessFlags::EXPOSES);
        }
        let rereg = self.mr.control().rereg_mr;
        // SAFETY: the region is live, and so is the domain, of the same context. The new memory
        // keeps its range valid for what the region allows (this function's contract), and becomes
        // the region's, or the caller keeps it as long.
        match unsafe { rereg(self.mr.as_ptr(), to) } {
            Err(failed) if failed.code != ERR_DO_FORK_OLD => return Err(failed),
            _ => {}
        }
        // INVARIANT: what was asked for is what the region has from here on.
        if let Some(pd) = pd {
            // SAFETY: the region is of this domain now.
            unsafe { self.mr.set_parents(pd.handle().clone()) };
            (self.pd, self.type_tag, self.slab) =
                (pd.id(), type_tag_of(pd), HeaderSlab::new(pd.id()));
        }
        if let Some((_, is_writable)) = access {
            self.is_writable = is_writable;
        }
        Ok(memory.take().and_then(|(_, new)| {
            (self.base, self.len) = (to.addr, to.length);
            self.memory.replace(new)
        }))
    }

    /// After a change that failed: keeps what the device may have got besides what the region has.
    pub(crate) fn keep_unknown(&mut self, memory: AnyMemory, pd: Option<&ProtectionDomain>) {
        self.unknown = Some((memory, pd.map(|pd| pd.handle().clone())));
    }

    /// The memory that `keep_unknown` kept.
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
        // SAFETY: a region keeps its domain, which is live. The device looks at what the list
        // names.
        unsafe { (self.mr.control().advise_mr)(pd.as_ptr(), advice, flags, list) }
    }

    /// Why the memory cannot be given back, if it cannot: the provider may let a peer's request
    /// touch it after `ibv_dereg_mr` returned 0.
    pub(crate) fn is_kept(&self) -> Option<Error> {
        self.given_up().or_else(|| self.may_be_touched_later().then(|| self.breaks_promise()))
    }

    fn breaks_promise(&self) -> Error {
        let context = &self.mr.parents().parents().context;
        let lacks = format!(
            "has {}, which may touch memory of peers' requests after its deregistration",
            context.provider()
        );
        let asked = format!("the {} bytes of a region with remote rights", self.len);
        let instead = "drop the region: its memory is not used again (docs/providers.md)";
        refusal(context, "ibv_dereg_mr", asked, &lacks, instead)
    }

    /// Whether a peer's request may touch the memory after `ibv_dereg_mr` returned 0.
    fn may_be_touched_later(&self) -> bool {
        self.was_given_up || self.is_exposed && !self.provider().ends_access_at_dereg()
    }

    fn provider(&self) -> Provider {
        self.mr.parents().parents().context.provider()
    }

    /// Why nothing can be done with the region, if the device gave it up.
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
        // SAFETY: the object is live: it is not closed.
        let mr = unsafe { self.mr.ptr().read() };
        let begun = Instant::now();
        self.mr.close()?;
        if begun.elapsed() >= limit {
            self.was_given_up = true;
            // The C object is gone. A copy without keys takes its place, since the region may be
            // given back to the program.
            let mr = Box::leak(Box::new(ibv_mr { lkey: 0, rkey: 0, ..mr }));
            let (control, parents) = (self.mr.control(), self.mr.parents().clone());
            // SAFETY: the copy is never freed, and its context and domain are kept. No verb that
            // needs a region gets it: `rereg` and `close` look first (`is_elsewhere`), and a bind
            // takes no more of it than its key.
            self.mr = unsafe { handle::Mr::kept(mr.into(), control, parents, Box::new(())) };
        }
        Ok(())
    }

    /// The same, for `verb`, which is to give the memory back.
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

/// The type tag of pieces of a region in this domain, but for their lengths.
fn type_tag_of(pd: &ProtectionDomain) -> u64 {
    type_tag::of(pd.id(), type_tag::NO_POOL, 0)
}

impl Drop for Registered {
    fn drop(&mut self) {
        // (Twice, as any handle that was refused once is tried again when it is dropped.)
        if self.close().or_else(|_| self.close()).is_err() {
            // The device still has it. It is not tried again: nobody would learn that it is gone.
            std::mem::forget((self.mr.take(), self.memory.take(), self.unknown.take()));
        } else if self.may_be_touched_later() {
            std::mem::forget((self.memory.take(), self.unknown.take()));
        }
        // (Else the memory is dropped with this value, by code that may be the user's and panic.)
    }
}

/// Why `len` bytes were not registered.
#[cold]
pub(super) fn why_not(
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
            let why = "a page is beyond the end of its file, or this kernel pins no read-only file";
            Error::os(verb, errno, format!("{asked}; {why}"))
        }
        _ => Error::os(verb, errno, asked),
    }
}
