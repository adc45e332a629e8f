//! The C structs that a completion queue needs.

pub mod types {
    #![allow(non_camel_case_types)] // names from C

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
        // SAFETY: zero is a valid value of pointers and of optional functions.
        unsafe { std::mem::zeroed() }
    }
}
