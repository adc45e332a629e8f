//! The record of rdma-core's ping-pongs is rejected, or parsed to its values.
#![no_main]

use libfuzzer_sys::fuzz_target;
use proverbs::endpoint::Service;

#[path = "../../examples/common/record.rs"]
mod record;

fuzz_target!(|data: &[u8]| {
    if let Some(peer) = record::from_wire(data, Service::UnreliableConnection) {
        let again = record::to_text(&peer) + "\0";
        assert_eq!(again.len(), record::UNUSED.len());
        assert!(again.as_bytes().eq_ignore_ascii_case(data));
    }
});
