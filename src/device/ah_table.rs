//! The address handles of a UD queue pair.
//!
//! Work requests name them by index, so that posting counts no references. A removed address handle
//! lives on until no outstanding work request can name it. (Soft-RoCE looks it up when it
//! transmits, not when it is posted: R5.3.)

#![allow(unsafe_code)] // an index that needs no check

use crate::counters::ids;
use crate::sync::AtomicU64;
use crate::sys::handle;
use crate::sys::types::ibv_ah;

/// The name of an address handle within its queue pair, for a
/// [`Destination`](crate::wr::Destination): C's `wr.ud.ah` ([R5.3](crate::guide::rules#r5-3)).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AhIndex {
    raw: *mut ibv_ah,
    index: u32,
    /// Unique in the process, never 0.
    key: u32,
}

// SAFETY: a name. Only a queue pair that has the handle passes the pointer on, to the device.
unsafe impl Send for AhIndex {}
// SAFETY: shared access reads a number and a pointer that is not dereferenced here.
unsafe impl Sync for AhIndex {}

impl AhIndex {
    /// The C handle, which is live if the table `has` this name.
    #[inline(always)]
    pub(crate) fn as_ptr(self) -> *mut ibv_ah {
        self.raw
    }
}

/// The keys of a table that never had a handle.
static NONE: [u32; 2] = [0, 0];

/// What a post asks of a table: whether it has a key. It is apart from the table, which no post
/// touches.
///
/// # Invariants
/// It is the address of a mask. Behind that are `mask + 1` keys, a power of two: those of its
/// table, or, as long as it has none, `NONE`. Key 0 names nothing. (The mask is there because
/// a queue pair is two cache lines, which are moved from state to state.)
#[doc(hidden)]
pub struct AhKeys(*const u32);

impl Default for AhKeys {
    fn default() -> Self {
        AhKeys(NONE.as_ptr())
    }
}

impl AhKeys {
    /// Whether the handle that `index` names is in the table.
    #[inline(always)]
    pub fn has(&self, index: AhIndex) -> bool {
        // SAFETY: the slot is masked, and there are `mask + 1` keys behind the mask (invariant).
        unsafe { *self.0.add(1 + self.slot(index)) == index.key }
    }

    /// Where the key of `index` would be.
    #[inline(always)]
    fn slot(&self, index: AhIndex) -> usize {
        // SAFETY: the mask is there (invariant).
        (index.index & unsafe { *self.0 }) as usize
    }
}

/// The address handles of a queue pair. The owner has the keys too, and passes them to what changes
/// them.
///
/// # Invariants
/// - If slot `i` has key `k`, `ahs[i]` is the live address handle that the `AhIndex` with key `k`
///   names.
/// - `retired` holds removed handles, each with a number: work requests posted before it may name
///   the handle.
#[derive(Default)]
pub(crate) struct AhTable {
    /// The keys, behind their mask; empty until the first handle.
    own: Vec<u32>,
    ahs: Vec<Option<handle::Ah>>,
    /// The slots without a handle.
    free: Vec<u32>,
    retired: Vec<(handle::Ah, u32)>,
}

impl AhTable {
    /// Adds a handle; gives it back when names are used up.
    pub fn add(&mut self, keys: &mut AhKeys, ah: handle::Ah) -> Result<AhIndex, handle::Ah> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let Some(key) = ids::mint_below(&NEXT, u32::MAX.into()) else { return Err(ah) };
        let key = key as u32;
        let AhTable { own, ahs, free, .. } = self;
        let index = free.pop().map_or(ahs.len(), |index| index as usize);
        if index == ahs.len() {
            ahs.push(None);
        }
        if index + 1 >= own.len() {
            let len = (index + 1).next_power_of_two();
            own.resize(1 + len, 0);
            own[0] = len as u32 - 1;
        }
        let raw = ah.as_ptr();
        ahs[index] = Some(ah);
        self.set_key(keys, index, key);
        Ok(AhIndex { raw, index: index as u32, key })
    }

    /// Sets a key of `own`, which is not empty.
    fn set_key(&mut self, keys: &mut AhKeys, slot: usize, key: u32) {
        self.own[1 + slot] = key;
        // INVARIANT: anew, since they may have moved, and were borrowed mutably.
        *keys = AhKeys(self.own.as_ptr());
    }

    /// Removes the name. The handle is destroyed once `posted` work requests have completed.
    pub fn remove(&mut self, keys: &mut AhKeys, index: AhIndex, posted: u32) -> bool {
        if !keys.has(index) {
            return false;
        }
        let slot = keys.slot(index);
        self.set_key(keys, slot, 0);
        self.retired.extend(self.ahs[slot].take().map(|ah| (ah, posted)));
        self.free.push(slot as u32);
        true
    }

    /// Any live address handle of the table, for a work request that is the last of `posted`. If it
    /// is a removed one, it now waits for that work request too.
    pub fn lend_any(&mut self, posted: u32) -> Option<*mut ibv_ah> {
        if let Some(ah) = self.ahs.iter().flatten().next() {
            return Some(ah.as_ptr());
        }
        let (ah, until) = self.retired.first_mut()?;
        *until = posted;
        Some(ah.as_ptr())
    }

    /// How many removed handles wait.
    pub fn removed(&self) -> usize {
        self.retired.len()
    }

    /// Destroys the removed handles whose work requests have all completed. Returns how many are
    /// left.
    pub fn reap(&mut self, completed: u32) -> usize {
        self.retired.retain(|(_, posted)| (completed.wrapping_sub(*posted) as i32) < 0);
        self.retired.len()
    }

    /// Destroys all of them, with their names.
    pub fn end(&mut self, keys: &mut AhKeys) {
        // INVARIANT: before the keys are gone.
        *keys = AhKeys::default();
        *self = AhTable::default();
    }
}

#[cfg(all(test, feature = "loopback"))]
mod tests {
    use super::*;
    use crate::{loopback, prelude::*};

    #[test]
    fn a_slot_without_a_handle_has_no_name() {
        let context = loopback::Fabric::new().open_device();
        let pd = context.alloc_pd().unwrap();
        let gid = context.query_gid(1, 1).unwrap();
        let ah = || pd.create_ah(AddressVector::roce(1, gid, 1)).unwrap().handle;
        // SAFETY: the mask is there (invariant).
        let mask = |keys: &AhKeys| unsafe { *keys.0 };
        let (mut table, mut keys) = (AhTable::default(), AhKeys::default());
        assert!(table.own.is_empty() && mask(&keys) == 0 && table.lend_any(0).is_none());
        assert_eq!((table.removed(), table.reap(0)), (0, 0));
        let own = |table: &AhTable| table.own[1..].to_vec();
        assert!(!keys.has(AhIndex { raw: std::ptr::null_mut(), index: 7, key: 1 }));
        let mut names = Vec::new();
        for (len, n) in [1, 2, 4, 4, 8].into_iter().zip(1..) {
            names.push(table.add(&mut keys, ah()).unwrap_or_else(|_| panic!("there are names")));
            assert_eq!((own(&table).len(), mask(&keys) as usize), (len, len - 1));
            assert!(own(&table)[n..].iter().all(|&key| key == 0), "{:?}", own(&table));
        }
        assert!(names.iter().all(|&name| keys.has(name)));
        assert!(table.remove(&mut keys, names[2], 5) && !keys.has(names[2]));
        assert_eq!((own(&table)[2], table.remove(&mut keys, names[2], 5)), (0, false));
        let again = table.add(&mut keys, ah()).unwrap_or_else(|_| panic!("there are names"));
        assert_eq!((again.index, own(&table).len()), (2, 8));
        assert!(keys.has(again) && !keys.has(names[2]));
        // It waits for as many as were posted, and no longer.
        assert_eq!([4, 5].map(|completed| table.reap(completed)), [1, 0]);
        assert!(table.remove(&mut keys, again, 2));
        assert_eq!([u32::MAX, 0, 1, 2].map(|completed| table.reap(completed)), [1, 1, 1, 0]);
        // However often handles come and go, there are as many slots as there were handles at once.
        for _ in 0..100 {
            let name = table.add(&mut keys, ah()).unwrap_or_else(|_| panic!("there are names"));
            assert!(table.remove(&mut keys, name, 2));
            assert_eq!((table.reap(2), table.ahs.len(), own(&table).len()), (0, 5, 8));
            // The free ones are known: nobody looks through the others for them.
            assert_eq!(table.free, [2]);
        }
    }
}
