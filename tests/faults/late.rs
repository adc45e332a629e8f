//! Draining on a device that flushes late (R7.15): on every transport, with and without a shared
//! receive queue, signaled and not.

use super::*;
use proverbs::qp::{Drained, Max};
use proverbs::transport::Transport;

profile! { SharedAll { receive: SharedRq } }
profile! { SharedRing { receive: SharedRq, signaling: Selective } }

/// It flushes this many runs after it entered ERR.
const RUNS: u32 = 300;

/// A device whose queue pairs all flush late.
fn late() -> (Fabric, Device) {
    let fabric = Device::fabric();
    fabric.inject(Script::seeded(0).with(Fault::FlushLate { runs: RUNS }.always()));
    (fabric.clone(), Device::loopback(&fabric))
}

/// Moves it to ERR and drains it: `all` buffers return, and not at once. Returns the first bytes,
/// in order.
fn drained<T: Transport, P: Profile<Entry = Buf>>(
    qp: QueuePair<T, Rts, P>,
    cq: &mut CompletionQueue,
    fabric: &Fabric,
) -> Vec<u8> {
    let mut qp = qp.to_error().unwrap();
    let before = (qp.sends_outstanding(), qp.recvs_outstanding());
    assert_eq!(poll_empty(cq), 0, "nothing is flushed yet");
    assert_eq!((qp.sends_outstanding(), qp.recvs_outstanding()), before);
    let mut found = Vec::new();
    qp.drain(cq, |drained| match drained {
        Drained::Entry(mut buf) => {
            buf.set_len(1);
            found.push(buf[0]);
        }
        Drained::Other(_) => unreachable!("only this queue pair uses it"),
    })
    .unwrap();
    assert_eq!((qp.sends_outstanding(), qp.recvs_outstanding()), (0, 0));
    qp.destroy().unwrap();
    assert_eq!(fabric.injected().flush_late, 1);
    found.sort_unstable();
    found
}

/// Sends of one byte and, with its own receive queue, receives; all of them return.
macro_rules! own {
    ($($name:ident: $t:ty, $profile:ty, |$p:ident, $i:ident| $wr:expr;)*) => {$(
        #[test]
        fn $name() {
            let (fabric, dev) = late();
            let mut $p = Pair::<$t, $profile>::on(dev, &Wish::new());
            for $i in 0..3u8 {
                $p.a.post_recv(wr::Recv::new(filled(&$p.pool, &[10 + $i]))).unwrap();
            }
            let script = Script::seeded(0)
                .with(Fault::FlushLate { runs: RUNS }.always())
                .with(Fault::ToError.nth(0));
            fabric.inject(script);
            for $i in 0..3u8 {
                let wr = $wr;
                $p.a.post_send(wr).unwrap();
            }
            let found = drained($p.a, &mut $p.ca, &fabric);
            assert_eq!(found, [0, 1, 2, 10, 11, 12]);
            assert_eq!($p.pool.available(), 40);
        }
    )*};
}

own! {
    rc: Rc, DefaultProfile, |p, i| wr::Send::new(filled(&p.pool, &[i]));
    rc_ring: Rc, Ring, |p, i| wr::Send::new(filled(&p.pool, &[i]));
    uc: Uc, DefaultProfile, |p, i| wr::Send::new(filled(&p.pool, &[i]));
    uc_ring: Uc, Ring, |p, i| wr::Send::new(filled(&p.pool, &[i]));
    ud: Ud, DefaultProfile, |p, i| {
        let to = p.a.way_to(&p.dev, &p.pd, p.b.qp_num());
        wr::Send::new(filled(&p.pool, &[i])).to(to)
    };
    ud_ring: Ud, Ring, |p, i| {
        let to = p.a.way_to(&p.dev, &p.pd, p.b.qp_num());
        wr::Send::new(filled(&p.pool, &[i])).to(to)
    };
}

/// Unsignaled sends, which only a marker covers; a late device flushes the marker late as well.
macro_rules! unsignaled {
    ($($name:ident: $t:ty, |$p:ident, $i:ident| $wr:expr;)*) => {$(
        #[test]
        fn $name() {
            let (fabric, dev) = late();
            let mut $p = Pair::<$t, Ring>::on(dev, &Wish::new());
            for $i in 0..3u8 {
                let wr = $wr;
                let _ = $p.a.post_send_unsignaled(wr).unwrap();
            }
            assert_eq!(drained($p.a, &mut $p.ca, &fabric), [0, 1, 2]);
            assert_eq!($p.pool.available(), 40);
        }
    )*};
}

unsignaled! {
    rc_unsignaled: Rc, |p, i| wr::Send::new(filled(&p.pool, &[i]));
    uc_unsignaled: Uc, |p, i| wr::Send::new(filled(&p.pool, &[i]));
    ud_unsignaled: Ud, |p, i| {
        let to = p.a.way_to(&p.dev, &p.pd, p.b.qp_num());
        wr::Send::new(filled(&p.pool, &[i])).to(to)
    };
}

/// On a shared receive queue: the sends return, the receives stay there, and the pool gets them
/// when it is dropped.
macro_rules! shared {
    ($($name:ident: $t:ty, $profile:ty, |$pool:ident, $i:ident, $qp:ident, $dev:ident, $pd:ident| $wr:expr;)*) => {$(
        #[test]
        fn $name() {
            let (fabric, $dev) = late();
            let ($pd, wish) = ($dev.ctx.alloc_pd().unwrap(), Wish::new());
            let ($pool, feed) = ($pd.create_pool(8, 64).unwrap(), $pd.create_pool(4, 64).unwrap());
            let mut cq = $dev.ctx.create_cq(60).unwrap();
            let mut srq = $pd.create_srq::<$t, Buf, Max<1>, ()>(&feed).unwrap();
            while let Some(buf) = feed.take() {
                srq.post_srq_recv(wr::Recv::new(buf)).unwrap();
            }
            let made = $pd.create_qp::<$t, $profile>(&cq, &cq, Depth::on_srq(4, &srq)).unwrap();
            #[allow(unused_mut)]
            let mut $qp = <$t>::up(made, &$dev, 0xfffff0, &wish);
            let script = Script::seeded(0)
                .with(Fault::FlushLate { runs: RUNS }.always())
                .with(Fault::ToError.nth(0));
            fabric.inject(script);
            for $i in 0..3u8 {
                let wr = $wr;
                $qp.post_send(wr).unwrap();
            }
            assert_eq!(drained($qp, &mut cq, &fabric), [0, 1, 2]);
            assert_eq!(($pool.available(), feed.available()), (8, 0));
            srq.destroy().unwrap();
            assert_eq!(poll_empty(&mut cq), 0);
            assert_eq!((feed.reclaim(&mut cq), feed.available()), (0, 4));
            assert_eq!(cq.unbooked(), cq.capacity());
        }
    )*};
}

shared! {
    rc_srq: Rc, SharedAll, |pool, i, _qp, _dev, _pd| wr::Send::new(filled(&pool, &[i]));
    rc_srq_ring: Rc, SharedRing, |pool, i, _qp, _dev, _pd| wr::Send::new(filled(&pool, &[i]));
    ud_srq: Ud, SharedAll, |pool, i, qp, dev, pd| {
        let to = qp.way_to(&dev, &pd, 0xfffff0);
        wr::Send::new(filled(&pool, &[i])).to(to)
    };
    ud_srq_ring: Ud, SharedRing, |pool, i, qp, dev, pd| {
        let to = qp.way_to(&dev, &pd, 0xfffff0);
        wr::Send::new(filled(&pool, &[i])).to(to)
    };
}

/// A thread that sleeps on the channel is woken by a late flush.
/// Proves R7.15.
#[test]
fn a_wait_for_a_late_flush() {
    let (_, dev) = late();
    let pd = dev.ctx.alloc_pd().unwrap();
    let pool = pd.create_pool(2, 64).unwrap();
    let mut channel = dev.ctx.create_comp_channel().unwrap();
    let mut cq = dev.ctx.cq(30).channel(&channel).create().unwrap();
    let depth = Depth { send: 2, recv: 2 };
    let mut qp =
        Rc::init(pd.create_qp::<Rc, DefaultProfile>(&cq, &cq, depth).unwrap(), &Wish::new());
    qp.post_recv(wr::Recv::new(poisoned(&pool))).unwrap();
    let qp = qp.to_error().unwrap();
    assert_eq!(poll_empty(&mut cq), 0);
    let flushed = channel.wait(&mut cq).unwrap().count();
    assert_eq!((flushed, pool.available()), (1, 2));
    drop(qp);
}

/// An event may come before the completion that it announces. A wait for several sources polls
/// again after each event, whenever the completion arrives.
/// Ends: wait.
#[test]
#[cfg_attr(miri, ignore = "poll(2)")]
fn a_wait_for_several_sources_polls_after_each_event() {
    use proverbs::events::{Found, WaitFor, wait};
    for runs in 0..24 {
        let fabric = Device::fabric();
        let early = Fault::SpuriousEvent.always();
        let script = Script::seeded(0).with(Fault::FlushLate { runs }.always()).with(early);
        fabric.inject(script);
        let dev = Device::loopback(&fabric);
        let (pd, mut channel) =
            (dev.ctx.alloc_pd().unwrap(), dev.ctx.create_comp_channel().unwrap());
        let mut cq: CompletionQueue = dev.ctx.cq(8).channel(&channel).create().unwrap();
        let depth = Depth { send: 1, recv: 1 };
        let qp = pd.create_qp::<Rc, DefaultProfile>(&cq, &cq, depth).unwrap();
        let mut qp = Rc::init(qp, &Wish::new());
        qp.post_recv(wr::Recv::empty()).unwrap();
        let _qp = qp.to_error().unwrap();
        let sources = [WaitFor::Cqs(&mut channel, &mut [&mut cq])];
        let [found] = wait(sources, Some(patience())).unwrap();
        assert!(matches!(found, Some(Found::Cq(0))), "{runs} runs");
    }
}
