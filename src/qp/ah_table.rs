//! The address handles of a UD queue pair.
//!
//! Work requests name them by index, so that posting needs no reference count; an address handle that is
//! removed lives on until no outstanding work request can name it. (Soft-RoCE looks it up when it
//! transmits, not when it is posted: R5.3.)

use std::sync::atomic::{AtomicU32, Ordering};

use crate::sys::handle;
use crate::sys::types::ibv_ah;

/// The name of an address handle within the queue pair that it was given to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AhIndex {
    index: u32,
    /// Unique in the process, never 0.
    key: u32,
}

/// # Invariants
/// - A slot with key `k` holds the live address handle that the `AhIndex` with key `k` names.
/// - `retired` holds handles that a work request posted before the number beside them may name.
#[derive(Default)]
pub(crate) struct AhTable {
    slots: Vec<Slot>,
    retired: Vec<(handle::Ah, u32)>,
}

struct Slot {
    key: u32,
    raw: *mut ibv_ah,
    ah: Option<handle::Ah>,
}

impl AhTable {
    /// The C handle that `index` names, if it is still there.
    #[inline(always)]
    pub fn get(&self, index: AhIndex) -> Option<*mut ibv_ah> {
        let slot = self.slots.get(index.index as usize)?;
        (slot.key == index.key).then_some(slot.raw)
    }

    /// Adds a handle; `Err` when names are used up.
    pub fn add(&mut self, ah: handle::Ah) -> Result<AhIndex, handle::Ah> {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        let next = |key: u32| key.checked_add(1);
        let Ok(key) = NEXT.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next) else {
            return Err(ah);
        };
        let free = self.slots.iter().position(|slot| slot.ah.is_none());
        let index = free.unwrap_or(self.slots.len());
        let slot = Slot { key, raw: ah.as_ptr(), ah: Some(ah) };
        match free {
            Some(free) => self.slots[free] = slot,
            None => self.slots.push(slot),
        }
        Ok(AhIndex { index: index as u32, key })
    }

    /// Takes the name away; the handle goes once `posted` work requests have completed.
    pub fn remove(&mut self, index: AhIndex, posted: u32) -> bool {
        let Some(slot) = self.slots.get_mut(index.index as usize) else { return false };
        if slot.key != index.key {
            return false;
        }
        // Key 0 is never given out, so the slot answers to no name now.
        slot.key = 0;
        slot.raw = std::ptr::null_mut();
        self.retired.extend(slot.ah.take().map(|ah| (ah, posted)));
        true
    }

    /// Any live address handle of the table.
    pub fn any(&self) -> Option<*mut ibv_ah> {
        let named = self.slots.iter().filter_map(|slot| slot.ah.as_ref());
        let retired = self.retired.iter().map(|(ah, _)| ah);
        named.chain(retired).next().map(handle::Ah::as_ptr)
    }

    /// Destroys the removed handles whose work requests have all completed. Gives the number left.
    pub fn reap(&mut self, completed: u32) -> usize {
        self.retired.retain(|(_, posted)| (completed.wrapping_sub(*posted) as i32) < 0);
        self.retired.len()
    }
}
