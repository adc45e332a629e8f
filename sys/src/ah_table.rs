//! The address handles of a UD queue pair.
//!
//! Work requests refer to them by index, so that posting counts no references. A removed address
//! handle stays alive until no outstanding work request can use it. (Soft-RoCE looks it up when it
//! transmits, not when it is posted: R5.3.)

// No model: the lock-free part is `counters::ids::mint_below`, which has one.

use crate::counters::ids;
use crate::handle;
use crate::sync::{AtomicU64, global};
use crate::types::ibv_ah;

/// The index of an address handle in its queue pair, for a [`Destination`]: C's `wr.ud.ah`
/// ([R5.3]).
///
/// [`Destination`]: https://docs.rs/proverbs/latest/proverbs/wr/struct.Destination.html
/// [R5.3]: https://docs.rs/proverbs/latest/proverbs/guide/rules/index.html#r5-3
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AhIndex {
    raw: *mut ibv_ah,
    index: u32,
    /// Unique in the process, never 0.
    key: u32,
}

// SAFETY: an index. Only a queue pair that has the handle passes the pointer to the device.
unsafe impl Send for AhIndex {}
// SAFETY: shared access reads a number and a pointer that is not dereferenced here.
unsafe impl Sync for AhIndex {}

impl AhIndex {
    /// The C handle, which is live if the table `has` this index.
    #[inline(always)]
    pub fn as_ptr(self) -> *mut ibv_ah {
        self.raw
    }
}

/// The keys of a table, in which a post looks up an index. They are separate from the table, which
/// no post touches. Key 0 is never valid.
#[derive(Default)]
pub struct AhKeys(Vec<u32>);

impl AhKeys {
    /// Whether the table contains the handle of `index`.
    #[inline(always)]
    pub fn has(&self, index: AhIndex) -> bool {
        self.0.get(index.index as usize) == Some(&index.key)
    }
}

/// The address handles of a queue pair. The owner stores the keys, and passes them to methods that
/// change them.
///
/// # Invariants
/// - If slot `i` has key `k`, `ahs[i]` is the live address handle of the `AhIndex` with key `k`.
/// - `retired` holds removed handles. The number beside a handle is the count of posted work
///   requests that must complete before the handle can be destroyed.
#[derive(Default)]
pub struct AhTable {
    ahs: Vec<Option<handle::Ah>>,
    /// The slots without a handle.
    free: Vec<u32>,
    retired: Vec<(handle::Ah, u32)>,
}

impl AhTable {
    /// Adds a handle. Returns it if all keys are used.
    pub fn add(&mut self, keys: &mut AhKeys, ah: handle::Ah) -> Result<AhIndex, handle::Ah> {
        global! { static NEXT: AtomicU64 = AtomicU64::new(1); }
        let Some(key) = ids::mint_below(&NEXT, u32::MAX.into()) else { return Err(ah) };
        let index = self.free.pop().map_or(self.ahs.len(), |index| index as usize);
        if index == self.ahs.len() {
            self.ahs.push(None);
            keys.0.push(0);
        }
        let raw = ah.as_ptr();
        self.ahs[index] = Some(ah);
        keys.0[index] = key as u32;
        Ok(AhIndex { raw, index: index as u32, key: key as u32 })
    }

    /// Removes the index. The handle is destroyed once `posted` work requests have completed.
    pub fn remove(&mut self, keys: &mut AhKeys, index: AhIndex, posted: u32) -> bool {
        if !keys.has(index) {
            return false;
        }
        let slot = index.index as usize;
        keys.0[slot] = 0;
        self.retired.extend(self.ahs[slot].take().map(|ah| (ah, posted)));
        self.free.push(index.index);
        true
    }

    /// Returns any live address handle of the table, for the last of the `posted` work requests. If
    /// the handle was removed, it is now kept until that work request has completed.
    pub fn lend_any(&mut self, posted: u32) -> Option<*mut ibv_ah> {
        if let Some(ah) = self.ahs.iter().flatten().next() {
            return Some(ah.as_ptr());
        }
        let (ah, until) = self.retired.first_mut()?;
        *until = posted;
        Some(ah.as_ptr())
    }

    /// The number of removed handles that wait to be destroyed.
    pub fn removed(&self) -> usize {
        self.retired.len()
    }

    /// Destroys the removed handles whose work requests have all completed. Returns how many are
    /// left.
    pub fn reap(&mut self, completed: u32) -> usize {
        self.retired.retain(|(_, posted)| (completed.wrapping_sub(*posted) as i32) < 0);
        self.retired.len()
    }

    /// Destroys all handles, and removes their indexes.
    pub fn end(&mut self, keys: &mut AhKeys) {
        // INVARIANT: the keys go first, so no key refers to a destroyed handle.
        *keys = AhKeys::default();
        *self = AhTable::default();
    }
}

#[cfg(test)]
mod tests {
    use std::mem::MaybeUninit;
    use std::ptr::NonNull;
    use std::sync::Arc;

    use super::*;
    use crate::control::{Control, LIBIBVERBS};
    use crate::types::ibv_pd;

    static STUB: Control = Control {
        close_device: |_| Ok(()),
        dealloc_pd: |_| Ok(()),
        destroy_ah: |_| Ok(()),
        ..LIBIBVERBS
    };

    fn stub<T>() -> NonNull<T> {
        NonNull::from(Box::leak(Box::new(MaybeUninit::<T>::zeroed()))).cast()
    }

    #[test]
    fn a_slot_without_a_handle_has_no_name() {
        let fake = NonNull::new(crate::tests::context::<4>(32, &[])).unwrap();
        // SAFETY: the objects are leaked, and the stub does not use them.
        let pd = Arc::new(unsafe {
            let context = handle::Context::new(fake, &STUB, handle::Unchanging::default());
            handle::Pd::new(stub::<ibv_pd>(), &STUB, Arc::new(context).into())
        });
        // SAFETY: as above.
        let ah = || unsafe { handle::Ah::new(stub::<ibv_ah>(), &STUB, pd.clone()) };
        let (mut table, mut keys) = (AhTable::default(), AhKeys::default());
        assert!(keys.0.is_empty() && table.lend_any(0).is_none());
        assert_eq!((table.removed(), table.reap(0)), (0, 0));
        assert!(!keys.has(AhIndex { raw: std::ptr::null_mut(), index: 7, key: 1 }));
        let mut names = Vec::new();
        for n in 1..6 {
            names.push(table.add(&mut keys, ah()).unwrap_or_else(|_| panic!("there are names")));
            assert_eq!((keys.0.len(), keys.0.contains(&0)), (n, false));
        }
        assert!(names.iter().all(|&name| keys.has(name)));
        assert!(table.remove(&mut keys, names[2], 5) && !keys.has(names[2]));
        assert_eq!((keys.0[2], table.remove(&mut keys, names[2], 5)), (0, false));
        let again = table.add(&mut keys, ah()).unwrap_or_else(|_| panic!("there are names"));
        assert_eq!((again.index, keys.0.len()), (2, 5));
        assert!(keys.has(again) && !keys.has(names[2]));
        // It is kept until as many work requests as were posted have completed.
        assert_eq!([4, 5].map(|completed| table.reap(completed)), [1, 0]);
        assert!(table.remove(&mut keys, again, 2));
        assert_eq!([u32::MAX, 0, 1, 2].map(|completed| table.reap(completed)), [1, 1, 1, 0]);
        // When the table ends, both current and removed handles are destroyed.
        let (mut ends, mut its) = (AhTable::default(), AhKeys::default());
        let [named, waits] = [(); 2]
            .map(|()| ends.add(&mut its, ah()).unwrap_or_else(|_| panic!("there are names")));
        assert!(ends.remove(&mut its, waits, 1) && its.has(named));
        ends.end(&mut its);
        assert!(!its.has(named) && !its.has(waits));
        assert!(ends.lend_any(0).is_none() && ends.removed() == 0);
        // There are never more slots than there were handles at the same time.
        for _ in 0..100 {
            let name = table.add(&mut keys, ah()).unwrap_or_else(|_| panic!("there are names"));
            assert!(table.remove(&mut keys, name, 2));
            assert_eq!((table.reap(2), table.ahs.len(), keys.0.len()), (0, 5, 5));
            // The free slots are in a list, so no search is needed.
            assert_eq!(table.free, [2]);
        }
    }
}
