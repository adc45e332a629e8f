//! Plain posts, polls and buffers do not take cold paths.

use crate::cold_calls::count::entered;
use crate::loopback::{self, Pair};
use crate::post::{RecvSlots, SendSlots};
use crate::prelude::*;

crate::profile! { Ring { signaling: Selective } }
crate::profile! { Lists { max_send_sge: 2, max_recv_sge: 2, entry: BufList } }

/// Each way to post plain buffers, and to poll their completions.
macro_rules! enter_nothing_cold {
    ($profile:ty, $done:expr) => {{
        let Pair { mut a, mut b, mut cq, pool, pd, .. } = loopback::pair_of::<$profile>().unwrap();
        let region = pd.register::<RemoteAll>(256).unwrap();
        let at = region.remote();
        let mut bufs: Vec<Buf> = std::iter::from_fn(|| pool.take()).collect();
        let mut buf = || bufs.pop().unwrap();
        let (mut sends, mut receives) = (SendSlots::<4>::new(), RecvSlots::<4>::new());
        let mut prepared = wr::RdmaWrite::new(wr::Placeholder, at.write()).prepare();

        let (one, two) = (buf(), buf());
        assert_eq!(entered(|| b.post_recv(wr::Recv::new(one)).unwrap()), 0, "post_recv");
        let receives_of_a_list = entered(|| {
            let mut list = b.recv_list(&mut receives);
            list.push(wr::Recv::new(two)).unwrap();
            list.post().unwrap();
        });
        assert_eq!(receives_of_a_list, 0, "recv_list");
        let one = buf();
        assert_eq!(entered(|| a.post_send(wr::Send::new(one)).unwrap()), 0, "post_send");
        assert_eq!(entered(|| a.post_send(wr::Send::inline(b"x")).unwrap()), 0, "inline");
        let one = buf();
        let read = wr::RdmaRead::new(one, at.slice(0, 256).unwrap().read());
        assert_eq!(entered(|| a.post_send(read).unwrap()), 0, "a READ");
        let one = buf();
        assert_eq!(entered(|| a.post_prepared(&mut prepared, one).unwrap()), 0, "prepared");
        let (one, two) = (buf(), buf());
        let chain = entered(|| {
            crate::post_send!(
                a,
                [wr::RdmaWrite::new(one, at.write()), wr::RdmaWrite::new(two, at.write()),]
            )
            .unwrap();
        });
        assert_eq!(chain, 0, "post_send!");
        let (one, two) = (buf(), buf());
        let list = entered(|| {
            let mut list = a.send_list(&mut sends);
            list.push(wr::RdmaWrite::new(one, at.write())).unwrap();
            list.push(wr::RdmaWrite::new(two, at.write())).unwrap();
            list.post().unwrap();
        });
        assert_eq!(list, 0, "send_list");

        assert_eq!(entered(|| $done(cq.poll_one().unwrap().unwrap())), 0, "poll_one");
        let polled = entered(|| {
            for completion in cq.poll().unwrap() {
                $done(completion);
            }
        });
        assert_eq!(polled, 0, "poll");
    }};
}

#[test]
fn plain_posts_and_polls_enter_nothing_cold() {
    enter_nothing_cold!(DefaultProfile, drop::<Completion<'_, Buf>>);
}

#[test]
fn plain_posts_to_a_selective_queue_pair_enter_nothing_cold() {
    // (The queue pair needs these completions to release its entries. A dropped one is recorded for
    // it.)
    enter_nothing_cold!(Ring, std::mem::forget::<Completion<'_, Buf>>);
}

/// The elements of a list are added up while it is emitted, so a list that fits is not inspected.
#[test]
fn lists_that_fit_enter_nothing_cold() {
    let Pair { mut a, mut b, pool, pd, .. } = loopback::pair_of::<Lists>().unwrap();
    let region = pd.register::<RemoteAll>(512).unwrap();
    let at = region.remote();
    for lens in [[100, 100], [1, 255]] {
        let [sent, written, read, received] = [lens; 4].map(|lens| {
            lens.map(|len| {
                let mut buf = pool.take().unwrap();
                buf.set_len(len);
                buf
            })
        });
        assert_eq!(entered(|| b.post_recv(wr::Recv::new(received)).unwrap()), 0, "{lens:?}");
        assert_eq!(entered(|| a.post_send(wr::Send::new(sent)).unwrap()), 0, "{lens:?}");
        let write = wr::RdmaWrite::new(written, at.slice(0, 256).unwrap().write());
        assert_eq!(entered(|| a.post_send(write).unwrap()), 0, "{lens:?}");
        let read = wr::RdmaRead::new(read, at.read());
        assert_eq!(entered(|| a.post_send(read).unwrap()), 0, "{lens:?}");
    }
}

/// The first send of a buffer that was empty inspects it. Later ones do not.
#[test]
fn a_buffer_is_inspected_once() {
    let Pair { mut a, b: _b, mut cq, pool, pd, .. } = loopback::pair().unwrap();
    let region = pd.register::<RemoteAll>(256).unwrap();
    let mut buf = pool.take().unwrap();
    buf.set_len(0);
    buf.set_len(50);
    for inspected in [1, 0, 0] {
        let write = wr::RdmaWrite::new(buf, region.remote().write());
        assert_eq!(entered(|| a.post_send(write).unwrap()), inspected);
        let completion = cq.poll_one().unwrap().unwrap();
        completion.status().unwrap();
        buf = completion.into_entry().unwrap();
    }
}

/// A dropped buffer is the next that is taken.
#[test]
fn a_buffer_that_was_dropped_is_taken_from_the_free_list() {
    let Pair { pool, .. } = loopback::pair().unwrap();
    drop(pool.take());
    assert_eq!(entered(|| drop(pool.take())), 0);
}
