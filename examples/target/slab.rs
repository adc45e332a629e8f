//! The connections, found by the number in a completion or by the id in an event.

use std::collections::HashMap;

use proverbs::cm::IdKey;

/// Slots of a fixed number. Finding, adding and removing take constant time.
pub struct Slab<T> {
    slots: Vec<Option<Slot<T>>>,
    free: Vec<usize>,
    by_qp: HashMap<u32, usize>,
    by_id: HashMap<IdKey, usize>,
}

struct Slot<T> {
    qp_num: u32,
    id: IdKey,
    held: T,
}

impl<T> Slab<T> {
    pub fn with_room(room: usize) -> Slab<T> {
        Slab {
            slots: (0..room).map(|_| None).collect(),
            free: (0..room).rev().collect(),
            by_qp: HashMap::with_capacity(room),
            by_id: HashMap::with_capacity(room),
        }
    }

    pub fn room(&self) -> usize {
        self.slots.len()
    }

    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    pub fn is_full(&self) -> bool {
        self.free.is_empty()
    }

    /// Fills a slot. Returns `held` if none is free.
    pub fn insert(&mut self, qp_num: u32, id: IdKey, held: T) -> Result<(), T> {
        let Some(at) = self.free.pop() else { return Err(held) };
        self.by_qp.insert(qp_num, at);
        self.by_id.insert(id, at);
        self.slots[at] = Some(Slot { qp_num, id, held });
        Ok(())
    }

    pub fn get(&mut self, qp_num: u32) -> Option<&mut T> {
        let at = *self.by_qp.get(&qp_num)?;
        self.slots[at].as_mut().map(|slot| &mut slot.held)
    }

    /// The number of the queue pair that this id connects.
    pub fn qp_num(&self, id: IdKey) -> Option<u32> {
        self.slots[*self.by_id.get(&id)?].as_ref().map(|slot| slot.qp_num)
    }

    pub fn remove(&mut self, qp_num: u32) -> Option<T> {
        let at = self.by_qp.remove(&qp_num)?;
        let Slot { id, held, .. } = self.slots[at].take()?;
        self.by_id.remove(&id);
        self.free.push(at);
        Some(held)
    }

    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.slots.iter().flatten().map(|slot| &slot.held)
    }

    /// The numbers of all queue pairs.
    pub fn qp_nums(&self) -> Vec<u32> {
        self.by_qp.keys().copied().collect()
    }
}
