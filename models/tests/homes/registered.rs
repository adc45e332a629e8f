//! The memory under a pool, which nobody looks into.

pub struct Registered(Box<[u64; 64]>);

impl Registered {
    pub fn new() -> Self {
        Registered(Box::new([0; 64]))
    }

    pub fn pd(&self) -> u32 {
        1
    }

    pub fn len(&self) -> usize {
        size_of_val(&*self.0)
    }

    pub fn lkey(&self) -> u32 {
        1
    }

    pub fn at(&self, offset: usize) -> *mut u8 {
        (&raw const *self.0).cast_mut().cast::<u8>().wrapping_add(offset)
    }
}
