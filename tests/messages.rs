//! The messages that the examples parse. Any bytes from a peer are rejected, or parsed to exactly
//! their values.
#![forbid(unsafe_code)]

#[allow(dead_code)]
#[path = "../examples/rping/info.rs"]
mod info;
#[path = "../examples/common/record.rs"]
mod record;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use proverbs::endpoint::Service;
use proverbs::memory::RemoteAll;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Replaces at most two bytes of each message, and cuts some messages off.
fn changed(message: impl Strategy<Value = Vec<u8>>) -> impl Strategy<Value = Vec<u8>> {
    let changes = vec((any::<prop::sample::Index>(), any::<u8>()), 0..=2);
    let cut = prop::option::weighted(0.1, any::<prop::sample::Index>());
    (message, changes, cut).prop_map(|(mut message, changes, cut)| {
        for (at, byte) in changes {
            let at = at.index(message.len());
            message[at] = byte;
        }
        message.truncate(cut.map_or(message.len(), |cut| cut.index(message.len())));
        message
    })
}

fn check(
    messages: impl Strategy<Value = Vec<u8>>,
    test: impl Fn(Vec<u8>) -> std::result::Result<(), TestCaseError>,
) {
    let config = Config { cases: 4096, failure_persistence: None, ..Config::default() };
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, b"messages: the same in every run.");
    TestRunner::new_with_rng(config, rng).run(&messages, test).unwrap();
}

/// The record of rdma-core's ping-pongs.
#[test]
fn a_record() {
    let record = "[0-9a-fA-F]{4}:[0-9a-fA-F]{6}:[0-9a-fA-F]{6}:[0-9a-fA-F]{32}\0";
    let record = changed(record.prop_map(String::into_bytes));
    let any = vec(any::<u8>(), 0..100);
    check(prop_oneof![9 => record, 1 => any], |data| {
        if let Some(peer) = record::from_wire(&data, Service::UnreliableConnection) {
            let again = record::to_text(&peer) + "\0";
            prop_assert_eq!(again.len(), record::UNUSED.len());
            prop_assert!(again.as_bytes().eq_ignore_ascii_case(&data));
        }
        Ok(())
    });
}

/// The message of rping describes a buffer inside the address space.
#[test]
fn a_message_of_rping() {
    let len = info::WIRE_LEN;
    let buffer = changed(vec(any::<u8>(), len));
    let at_the_end = changed(vec(Just(0xff), len));
    let any = vec(any::<u8>(), 0..100);
    check(prop_oneof![8 => buffer, 1 => at_the_end, 1 => any], |data| {
        if let Ok(info) = info::Info::from_wire(&data) {
            prop_assert_eq!(&info.to_wire()[..], data);
            let slice = info.slice::<RemoteAll>();
            prop_assert_eq!(slice.len(), u64::from(info.length));
            prop_assert!(slice.slice(1, slice.len()).is_err());
        }
        Ok(())
    });
}
