//! An exported endpoint, as bytes and over a stream, is rejected, or encodes to the same bytes.
#![no_main]

use std::io::{self, Read, Write};
use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use proverbs::endpoint::{Endpoint, Service, Unbounded, exchange};
use proverbs::{bounded::{Mtu, Psn, Qpn}, memory::{RemoteAll, RemoteRead}};

/// A peer that sends these bytes in pieces of at most 7, and ignores what it receives.
struct Peer<'a>(&'a [u8]);

impl Read for Peer<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let most = out.len().min(7);
        self.0.read(&mut out[..most])
    }
}

impl Write for Peer<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fuzz_target!(|data: &[u8]| {
    let whole = Endpoint::from_bytes(data);
    if let Ok(endpoint) = &whole {
        assert_eq!(endpoint.to_bytes(), data, "each endpoint has one encoding");
        for i in 0..=endpoint.regions().len() {
            let _ = (endpoint.region::<RemoteAll>(i), endpoint.region::<RemoteRead>(i));
        }
    }
    if let Ok((first, rest)) = Endpoint::split_bytes(data) {
        assert_eq!([first.to_bytes().as_slice(), rest].concat(), data);
    }
    let (qpn, psn) = (Qpn::new(7).expect("24 bits"), Psn::new(0).expect("24 bits"));
    let mine = Endpoint::new(Service::UnreliableConnection, qpn, psn, Mtu::Bytes1024).expect("UC");
    if let Ok(theirs) = exchange(&mut Unbounded(Peer(data)), &mine, Duration::MAX) {
        assert!(data.starts_with(&theirs.to_bytes()));
    } else {
        assert!(whole.is_err(), "an endpoint that is valid as bytes is valid over a stream");
    }
});
