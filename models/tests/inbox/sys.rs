//! C's structs, which nobody looks into.

pub mod types {
    #![allow(non_camel_case_types)] // names of C's

    pub type ibv_cq = u64;
    pub type ibv_wc = [u64; 6];
}
