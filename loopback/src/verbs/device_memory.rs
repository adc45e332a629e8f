//! Memory that does not belong to the program, and regions that change: device memory, dma-buf,
//! `ibv_rereg_mr`.
//!
//! A memfd stands in for a dma-buf. It must be sealed against shrinking, as udmabuf requires, and
//! is mapped while it is registered.

#![allow(unsafe_code)] // Maps files, and points into memory.

use std::ffi::c_int;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;

use crate::objects::device_memory::Dm;
use crate::objects::memory::{Backing, Base, LOCAL_WRITE, Mr, REMOTE, check_pages};
use crate::state::State;
use crate::words::contract::broken;
use crate::words::script::{Fault, Occasion};
use crate::words::{Verb, limits};
use proverbs_sys::control::Holds;
use proverbs_sys::mem::map::{Map, errno};
use proverbs_sys::mem::open::Open;
use proverbs_sys::memory::*;
use proverbs_sys::types::OPTIONAL_ACCESS;

/// `IBV_ACCESS_RELAXED_ORDERING` and similar flags, and the rights that ibv_reg_dmabuf_mr(3) lists.
const OF_DMABUF: u32 = LOCAL_WRITE | REMOTE | OPTIONAL_ACCESS;
const PAGE: u64 = 4096;
impl State {
    pub(crate) fn max_dm_size(&self) -> u64 {
        if self.habits.is_rxe() { 0 } else { limits::DEVICE_MEMORY }
    }

    pub(crate) fn alloc_dm(&mut self, device: u32, length: usize, log_align: u32) -> Verb<u32> {
        self.check_alive(device)?;
        self.check_beyond_rxe()?;
        if length == 0 {
            broken("device memory must have at least one byte");
        }
        if length == 0 || log_align > 12 {
            return Err(libc::EINVAL);
        }
        let of_device = self.dms.values().filter(|dm| dm.device == device);
        let used: u64 = of_device.map(|dm| dm.length as u64).sum();
        if length as u64 > self.max_dm_size() - used {
            return Err(libc::ENOMEM);
        }
        let number = self.number()?;
        self.dms.insert(number, Dm::new(device, length));
        Ok(number)
    }

    pub(crate) fn free_dm(&mut self, dm: u32) -> Verb {
        self.destroy_fault(None)?;
        if self.mrs.values().any(|mr| matches!(mr.backing, Backing::Device(used) if used == dm)) {
            return Err(libc::EBUSY);
        }
        self.dms.remove(&dm).map(drop).ok_or(libc::EINVAL)
    }

    /// Device memory, for a copy by the processor.
    pub(crate) fn dm_at(&mut self, dm: u32, offset: u64, length: usize) -> Verb<(Open, usize)> {
        let by_words = self.habits.copies_words();
        let dm = self.dms.get(&dm).ok_or(libc::EINVAL)?;
        let end = offset.checked_add(length as u64).ok_or(libc::EFAULT)?;
        if end > dm.length as u64 {
            return Err(libc::EFAULT);
        }
        if by_words && (offset % 4 != 0 || length % 4 != 0) {
            return Err(libc::EINVAL);
        }
        Ok((dm.open(), offset as usize))
    }

    /// Like `reg_mr`, for device memory. Addresses are offsets in the region.
    pub(crate) fn reg_dm_mr(
        &mut self,
        pd: u32,
        dm: u32,
        offset: u64,
        length: usize,
        access: u32,
    ) -> Verb<(u32, u32, u32)> {
        self.check_region(pd, length, access & !ZERO_BASED)?;
        let of = self.dms.get(&dm).ok_or(libc::EINVAL)?;
        let end = offset.checked_add(length as u64).ok_or(libc::EINVAL)?;
        if access & ZERO_BASED == 0 || self.pds[&pd].device != of.device || end > of.length as u64 {
            return Err(libc::EINVAL);
        }
        // SAFETY: within the memory (tested above).
        let base = Base(unsafe { of.base.cast::<u8>().add(offset as usize) });
        let backing = Backing::Device(dm);
        self.add_region(Mr::new(pd, base, length, access, backing))
    }

    /// Like `reg_mr`, for a part of the file behind a descriptor.
    pub(crate) fn reg_dmabuf_mr(
        &mut self,
        pd: u32,
        part: DmabufPart,
        access: u32,
    ) -> Verb<(u32, u32, u32)> {
        self.check_beyond_rxe()?;
        let DmabufPart { fd, offset, length, iova } = part;
        self.check_region(pd, length, access)?;
        if access & !OF_DMABUF != 0 || iova.checked_add(length as u64).is_none() {
            return Err(libc::EINVAL);
        }
        let (size, page) = sealed(fd)?;
        if offset % PAGE != iova % PAGE
            || offset.checked_add(length as u64).is_none_or(|end| end > size)
        {
            return Err(libc::EINVAL);
        }
        let lead = offset % page;
        let protection = if access & LOCAL_WRITE != 0 {
            libc::PROT_READ | libc::PROT_WRITE
        } else {
            libc::PROT_READ
        };
        // SAFETY: the descriptor is open (`sealed`), and stays so until the verb returns (its
        // contract).
        let at = Some((unsafe { BorrowedFd::borrow_raw(fd) }, offset - lead));
        let whole = length + lead as usize;
        let map = Map::new(whole, page as usize, protection, libc::MAP_SHARED, at)?;
        // SAFETY: `lead` bytes and `length` more were mapped.
        let base = Base(unsafe { map.base().add(lead as usize) });
        self.add_region(Mr { iova, ..Mr::new(pd, base, length, access, Backing::Map(map)) })
    }

    /// Changes a region, and returns its number and its keys. The caller guarantees, as `rereg_mr`
    /// requires, that new memory is valid until the region is deregistered or re-registered.
    pub(crate) fn rereg_mr(
        &mut self,
        mr: u32,
        pd: u32,
        to: Rereg,
    ) -> Result<((u32, u32, u32), c_int), ReregFailed> {
        let has = |flag| to.flags & flag != 0;
        let known = CHANGE_TRANSLATION | CHANGE_PD | CHANGE_ACCESS;
        let nothing = has(CHANGE_TRANSLATION) && (to.length == 0 || to.addr.is_null());
        if to.flags & !known != 0 || nothing {
            return Err(ReregFailed { code: ERR_INPUT, errno: libc::EINVAL });
        }
        let code = match self.decide(Occasion::Rereg) {
            Some(Fault::Rereg { code }) => code,
            _ => 0,
        };
        if matches!(code, ERR_INPUT | ERR_DONT_FORK_NEW) {
            return Err(ReregFailed { code, errno: libc::ENOMEM });
        }
        self.check_unused_memory(mr);
        let changed = match code {
            0 | ERR_DO_FORK_OLD => self.changed_region(mr, pd, to),
            _ => Err(libc::EIO),
        };
        match changed {
            Ok(new) => Ok((self.replace_region(mr, new), code)),
            Err(errno) => {
                // No key gives access to it any more.
                if let Some(mr) = self.mrs.get_mut(&mr) {
                    mr.length = 0;
                }
                Err(ReregFailed { code: if code == 0 { ERR_CMD } else { code }, errno })
            }
        }
    }

    fn changed_region(&self, mr: u32, pd: u32, to: Rereg) -> Verb<Mr> {
        let has = |flag| to.flags & flag != 0;
        let old = self.mrs.get(&mr).ok_or(libc::EINVAL)?;
        if self.habits.is_rxe() || !matches!(old.backing, Backing::Program(_)) {
            return Err(libc::EOPNOTSUPP);
        }
        if self.has_windows(mr) {
            return Err(libc::EBUSY);
        }
        let device = |pd: u32| self.pds.get(&pd).map(|pd| pd.device);
        let pd = if has(CHANGE_PD) { pd } else { old.pd };
        if device(pd) != device(old.pd) {
            return Err(libc::EINVAL);
        }
        let access = if has(CHANGE_ACCESS) { to.access } else { old.access };
        let (base, length) = match has(CHANGE_TRANSLATION) {
            true => (Base(NonNull::new(to.addr).ok_or(libc::EFAULT)?), to.length),
            false => (old.base, old.length),
        };
        self.check_region(pd, length, access)?;
        check_pages(base, length, access)?;
        let new = Mr::of_program(pd, base, length, access, Holds::Open);
        Ok(Mr { is_exposed: new.is_exposed || old.is_exposed, ..new })
    }

    /// The region keeps its key or gets a new one: the manual page allows both.
    fn replace_region(&mut self, mr: u32, new: Mr) -> (u32, u32, u32) {
        let number = if self.habits.keeps_keys() { mr } else { self.number().unwrap_or(mr) };
        self.mrs.remove(&mr);
        self.insert_region(number, new)
    }
}

/// The size of a file that cannot shrink, and its page size.
fn sealed(fd: c_int) -> Verb<(u64, u64)> {
    let mut stat = std::mem::MaybeUninit::<libc::stat>::uninit();
    // SAFETY: fstat and fcntl accept any descriptor; the local is filled if the call returns 0.
    let (stat, seals) = unsafe {
        if libc::fstat(fd, stat.as_mut_ptr()) != 0 {
            return Err(errno());
        }
        (stat.assume_init(), libc::fcntl(fd, libc::F_GET_SEALS))
    };
    let page = u64::try_from(stat.st_blksize).map_err(|_| libc::EINVAL)?;
    if seals < 0 || seals & libc::F_SEAL_SHRINK == 0 || !page.is_power_of_two() || page < PAGE {
        return Err(libc::EINVAL);
    }
    Ok((u64::try_from(stat.st_size).map_err(|_| libc::EINVAL)?, page))
}
