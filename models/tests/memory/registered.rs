//! The memory of a pool, which the models do not access.

pub struct Registered {
    bytes: Box<[u64]>,
    /// Lets a test count how many exist.
    _noticed: Option<std::sync::Arc<()>>,
}

impl Registered {
    pub fn new() -> Self {
        Self::of(512)
    }

    pub fn of(len: usize) -> Self {
        Registered { bytes: vec![0; len / 8].into(), _noticed: None }
    }

    pub fn noticed(len: usize, by: std::sync::Arc<()>) -> Self {
        Registered { _noticed: Some(by), ..Self::of(len) }
    }

    pub fn pd(&self) -> u32 {
        1
    }

    pub fn len(&self) -> usize {
        size_of_val(&*self.bytes)
    }

    pub fn lkey(&self) -> u32 {
        1
    }

    pub fn at(&self, offset: usize) -> *mut u8 {
        self.bytes.as_ptr().cast_mut().cast::<u8>().wrapping_add(offset)
    }
}
