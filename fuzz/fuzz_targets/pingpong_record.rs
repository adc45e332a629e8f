//! The record of rdma-core's ping-pongs: refused, or what it says.
#![no_main]

use libfuzzer_sys::fuzz_target;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

#[allow(dead_code)]
#[path = "../../examples/common/record.rs"]
mod record;

fuzz_target!(|data: &[u8]| {
    if let Ok(record) = record::Record::from_wire(data) {
        let again = record.to_wire();
        assert_eq!(again.len(), record::WIRE_LEN);
        assert!(again.eq_ignore_ascii_case(data));
    }
});
