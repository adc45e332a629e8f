//! The connections, found by the number in a completion or by the id in an event.

use std::collections::HashMap;

use proverbs::cm::IdKey;

/// Slots of a fixed number. Finding, adding and removing take constant time.
pub struct Slab<T> {
    /// The number of the queue pair, the id, and the contents.
    slots: Vec<Option<(u32, IdKey, T)>>,
    free: Vec<usize>,
    by_qp: HashMap<u32, usize>,
    by_id: HashMap<IdKey, usize>,
}

impl<T> Slab<T> {
    pub fn with_room(room: usize) -> Slab<T> {
        let slots = (0..room).map(|_| None).collect();
        let free = (0..room).rev().collect();
        Slab { slots, free, by_qp: HashMap::new(), by_id: HashMap::new() }
    }

    pub fn room(&self) -> usize {
        self.slots.len()
    }

    pub fn len(&self) -> usize {
        self.by_qp.len()
    }

    /// Fills a slot. Panics if none is free.
    pub fn insert(&mut self, qp_num: u32, id: IdKey, held: T) {
        let at = self.free.pop().expect("a free slot");
        self.by_qp.insert(qp_num, at);
        self.by_id.insert(id, at);
        self.slots[at] = Some((qp_num, id, held));
    }

    pub fn get(&mut self, qp_num: u32) -> Option<&mut T> {
        let at = *self.by_qp.get(&qp_num)?;
        self.slots[at].as_mut().map(|(_, _, held)| held)
    }

    /// The contents for this id, and the number of the queue pair.
    pub fn find(&mut self, id: IdKey) -> Option<(u32, &mut T)> {
        let at = *self.by_id.get(&id)?;
        self.slots[at].as_mut().map(|(qp_num, _, held)| (*qp_num, held))
    }

    pub fn remove(&mut self, qp_num: u32) -> Option<T> {
        let at = self.by_qp.remove(&qp_num)?;
        let (_, id, held) = self.slots[at].take()?;
        self.by_id.remove(&id);
        self.free.push(at);
        Some(held)
    }

    pub fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        self.slots.iter().flatten().map(|(qp_num, _, held)| (*qp_num, held))
    }
}
