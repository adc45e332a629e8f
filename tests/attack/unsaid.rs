//! Fields that a device need not write are not accessible.

use proverbs::loopback::{Fabric, Personality};
use proverbs::prelude::*;

use crate::support::*;

/// mlx5 flags the sender's completion as having an immediate, and writes none.
///
/// `imm_data` of a send completion returns nothing, since providers may leave it
/// unwritten.
#[test]
fn the_immediate_of_a_send() {
    for personality in [Personality::Plain, Personality::Rxe, Personality::Mlx5] {
        let dev = Device::loopback(&Fabric::with(personality));
        let mut p = Pair::<Rc>::on(dev, &Wish::new());
        p.b.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
        p.a.post_send(wr::SendWithImm::new(filled(&p.pool, b"imm"), 5)).unwrap();
        let mut seen = None;
        until(&p.dev, "the send's completion", || {
            seen = p.ca.poll_one().unwrap().map(|sent| (sent.status().is_ok(), sent.imm_data()));
            seen.is_some()
        });
        assert_eq!(seen, Some((true, None)), "{personality}");
        assert_eq!(poll(&p.dev, &mut p.cb, 1).remove(0).received().imm_data, Some(5));
    }
}
