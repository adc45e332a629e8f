//! Memory windows of type 2: a key for a piece of a region, which a message ends.

use proverbs::completion::{Direction, WcStatus};
use proverbs::loopback::{Fabric, Personality};
use proverbs::prelude::*;

use crate::support::*;

const PERSONALITIES: [Personality; 4] =
    [Personality::Plain, Personality::Rxe, Personality::Mlx5, Personality::Worst { seed: 7 }];

/// A pair on a fabric with windows, and a region of its second end.
fn open(personality: Personality) -> (Fabric, Pair<Rc>, MemoryRegion<RemoteWrite>) {
    let fabric = Fabric::with(personality);
    let p = Pair::<Rc>::on(Device::loopback(&fabric), &Wish::new());
    let region = p.pd.register::<RemoteWrite>(64).unwrap();
    (fabric, p, region)
}

/// What the next completion of the sends says.
fn sent(p: &mut Pair<Rc>) -> Result<(), WcStatus> {
    let mut status = None;
    until(&p.dev, "the send's completion", || {
        let completion = p.ca.poll_one().unwrap();
        status = completion.map(|sent| sent.status().map_err(|error| error.status));
        status.is_some()
    });
    status.unwrap()
}

/// The slices of peers are numbers: who lengthens one reaches no byte beside the window (R6.11).
#[test]
fn a_window_is_no_larger_than_it_was_made() {
    for personality in PERSONALITIES {
        let (fabric, mut p, region) = open(personality);
        let at = region.remote();
        let window = fabric.open_window(at.slice(8, 16).unwrap()).unwrap();
        p.a.post_send(wr::RdmaWrite::inline(&[1; 16], window.write())).unwrap();
        assert_eq!(sent(&mut p), Ok(()), "{personality}");

        let whole = RemoteSlice::<RemoteWrite>::from_bytes(&{
            let mut bytes = at.to_bytes();
            bytes[16..20].copy_from_slice(&window.rkey().to_be_bytes());
            bytes
        });
        let beyond = whole.unwrap().slice(16, 16).unwrap();
        p.a.post_send(wr::RdmaWrite::inline(&[2; 16], beyond.write())).unwrap();
        assert_eq!(sent(&mut p), Err(WcStatus::RemAccess), "{personality}");
        let mut bytes = [0; 64];
        region.read_at(0, &mut bytes).unwrap();
        assert_eq!(bytes[..8], [0; 8]);
        assert_eq!(bytes[8..24], [1; 16]);
        assert_eq!(bytes[24..], [0; 40]);
        assert!(fabric.close_window(window));
    }
}

/// After the message that ends its key nothing reaches the window; Soft-RoCE does not say which key
/// it was (R1.6).
#[test]
fn an_ended_key_opens_nothing() {
    for personality in PERSONALITIES {
        let (fabric, mut p, region) = open(personality);
        let window = fabric.open_window(region.remote()).unwrap();
        p.b.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
        p.a.post_send(wr::SendWithInv::new(wr::Empty, window)).unwrap();
        assert_eq!(sent(&mut p), Ok(()), "{personality}");
        let mut ended = None;
        until(&p.dev, "the message", || {
            let completion = p.cb.poll_one().unwrap();
            ended =
                completion.map(|it| (it.direction(), it.status().is_ok(), it.invalidated_rkey()));
            ended.is_some()
        });
        let told = (personality != Personality::Rxe).then(|| window.rkey());
        assert_eq!(ended, Some((Direction::Receive, true, told)), "{personality}");

        p.a.post_send(wr::RdmaWrite::inline(&[1; 8], window.write())).unwrap();
        assert_eq!(sent(&mut p), Err(WcStatus::RemAccess), "{personality}");
        let mut bytes = [1; 64];
        region.read_at(0, &mut bytes).unwrap();
        assert_eq!(bytes, [0; 64]);
        assert!(!fabric.close_window(window));
        assert_eq!(p.pool.available(), p.pool.count());
    }
}
