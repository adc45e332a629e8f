//! Remote slices from peers, the header before a datagram, and private data.
#![no_main]

use libfuzzer_sys::fuzz_target;
use proverbs::cm::{AcceptData, ConnectData};
use proverbs::{RemoteSlice, completion::Grh, memory::{RemoteAll, RemoteRead}};

fuzz_target!(|data: &[u8]| {
    if let Some(bytes) = data.first_chunk::<24>() {
        if let Some(slice) = RemoteSlice::<RemoteAll>::from_bytes(bytes) {
            assert_eq!(&slice.to_bytes(), bytes);
            assert!(RemoteSlice::<RemoteRead>::from_bytes(bytes).is_none(), "other rights");
            for offset in [0, 1, 8, slice.len(), u64::MAX, slice.len().wrapping_sub(8)] {
                let _ = (slice.slice(offset, 8), slice.atomic(offset));
                if let Ok(part) = slice.slice(offset, 8) {
                    assert_eq!(part.len(), 8);
                    assert!(offset <= slice.len() - 8);
                }
            }
        }
    }
    if let Some(bytes) = data.first_chunk::<40>() {
        let grh = Grh(*bytes);
        let _ = format!("{grh:?} {:?} {:?}", grh.source(), grh.destination());
    }
    assert_eq!(ConnectData::new(data).is_ok(), data.len() <= 56);
    assert_eq!(AcceptData::new(data).is_ok(), data.len() <= 196);
});
