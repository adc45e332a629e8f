//! The message of rping is rejected, or describes a buffer inside the address space.
#![no_main]

use libfuzzer_sys::fuzz_target;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

#[allow(dead_code)]
#[path = "../../examples/rping/info.rs"]
mod info;

fuzz_target!(|data: &[u8]| {
    if let Ok(info) = info::Info::from_wire(data) {
        assert_eq!(info.to_wire(), data);
        let slice = info.slice::<proverbs::memory::RemoteAll>();
        assert_eq!(slice.len(), u64::from(info.length));
        assert!(slice.slice(1, slice.len()).is_err());
    }
});
