//! Pools: every buffer is handed out, to one holder at a time.

use proverbs::prelude::*;

use crate::support::*;

/// A pool hands out as many buffers as it was created with, each once, even after they were
/// returned in another order.
#[test]
fn every_buffer_is_handed_out_once() {
    let dev = Device::open();
    let pd = dev.ctx.alloc_pd().unwrap();
    for count in [1, 2, 7] {
        let pool = pd.pool(64).contexts(|i| i).create(count).unwrap();
        assert_eq!((pool.count(), pool.available()), (count, count));
        for round in 0..3 {
            let mut all: Vec<Buf<usize>> = std::iter::from_fn(|| pool.take()).collect();
            assert_eq!((all.len(), pool.available()), (count, 0), "round {round}");
            all.sort_by_key(|buf| *buf.context());
            assert!(all.iter().map(|buf| *buf.context()).eq(0..count), "round {round}");
            all.rotate_left(round % count);
            for (given, buf) in (1..).zip(all) {
                drop(buf);
                assert_eq!(pool.available(), given);
            }
        }
    }
}
