//! C's structs, as far as a completion queue is one.

pub mod types {
    #![allow(non_camel_case_types)] // names of C's

    pub struct ibv_cq {
        pub context: *mut ibv_context,
    }

    pub struct ibv_context {
        pub ops: Ops,
    }

    pub struct Ops {
        pub poll_cq: Option<unsafe extern "C" fn(*mut ibv_cq, i32, *mut ibv_wc) -> i32>,
    }

    pub type ibv_wc = [u64; 6];

    pub const fn zeroed<T>() -> T {
        // SAFETY: for pointers, and for functions that are optional, zeroes are a value.
        unsafe { std::mem::zeroed() }
    }
}
