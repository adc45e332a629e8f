//! The device itself refuses with ENOMEM, at every index of a list.
//!
//! Raw sends fill the device's queue without the crate's knowledge: their completions are filtered
//! out of its polls. The queue does not drain, since the peer has no receive posted and is retried
//! forever.

use std::cell::Cell;
use std::ptr;

use proverbs::post::PostErrorKind;
use proverbs::prelude::*;
use proverbs::qp::{Max, OwnRq, Reads};
use proverbs::raw::AsRaw;
use rdma_sys::{ibv_cq, ibv_post_send, ibv_send_flags, ibv_send_wr, ibv_wc, ibv_wr_opcode};

use crate::support::*;

/// The depth that the crate assumes, and the length of a list.
const DEPTH: u32 = 5;
const N: usize = 4;
/// The wr_id of a send that the crate does not know.
const FILLER: u64 = u64::MAX;
/// No device under test has more room in a queue of `DEPTH`.
const MOST: usize = 32;

type Posted = Result<(), PostError<Buf>>;

profile! { Ring { signaling: Selective } }

thread_local! {
    static POLL: Cell<Option<PollCq>> = const { Cell::new(None) };
    /// The number of filler completions that were filtered out.
    static HIDDEN: Cell<usize> = const { Cell::new(0) };
}

type PollCq = unsafe extern "C" fn(*mut ibv_cq, i32, *mut ibv_wc) -> i32;

/// The device's own poll, without the completions of fillers.
unsafe extern "C" fn poll_without_fillers(cq: *mut ibv_cq, entries: i32, wc: *mut ibv_wc) -> i32 {
    let poll = POLL.get().expect("it is set when this function is");
    let mut kept = 0;
    loop {
        let asked = entries - kept;
        // SAFETY: there is room for `entries` completions (the verb's contract), `kept` of which
        // are used; the device writes no more than requested.
        unsafe {
            let first = wc.add(kept as usize);
            let got = poll(cq, asked, first);
            assert!(got >= 0);
            for i in 0..got as usize {
                if (*first.add(i)).wr_id == FILLER {
                    HIDDEN.set(HIDDEN.get() + 1);
                } else {
                    ptr::copy(first.add(i), wc.add(kept as usize), 1);
                    kept += 1;
                }
            }
            // Completions after fillers are not left for the next poll: this one reached the end.
            if got < asked || kept == entries {
                return kept;
            }
        }
    }
}

/// Sends an empty message that the crate does not know. Returns the errno.
fn fill<P: Profile>(qp: &QueuePair<Rc, Rts, P>) -> i32 {
    let mut bad = ptr::null_mut();
    // SAFETY: all zeroes is a value of the structure. The queue pair is live, and no other code
    // posts to it now. The send names no memory, and its completion is filtered out.
    unsafe {
        let mut wr = std::mem::zeroed::<ibv_send_wr>();
        wr.wr_id = FILLER;
        wr.opcode = ibv_wr_opcode::IBV_WR_SEND;
        wr.send_flags = ibv_send_flags::IBV_SEND_SIGNALED.0;
        ibv_post_send(qp.as_raw(), &mut wr, &mut bad)
    }
}

fn pair<P: Ledgered>() -> Pair<Rc, P> {
    let depth = Depth { send: DEPTH, recv: MOST as u32 + DEPTH };
    let p = Pair::<Rc, P>::with(&Wish { depth, cqe: 120, ..Wish::new() });
    // SAFETY: the context is live, and only this thread reads its table.
    unsafe {
        let ops = &raw mut (*p.dev.ctx.as_raw()).ops;
        POLL.set((*ops).poll_cq);
        (*ops).poll_cq = Some(poll_without_fillers);
    }
    HIDDEN.set(0);
    p
}

/// The number of sends that the device accepts.
fn room<P: Ledgered>() -> usize {
    let p = pair::<P>();
    let room = (0..=MOST).take_while(|_| fill(&p.a) == 0).count();
    assert!((DEPTH as usize + 1..=MOST).contains(&room), "{room}");
    room
}

/// A profile, and how its sends are polled.
trait Ledgered:
    Profile<
        Receive = OwnRq,
        Threads = AnyThread,
        Entry = Buf,
        MaxSendSge = Max<1>,
        MaxRecvSge = Max<1>,
        MaxInline = Max<64>,
        Initiator = Reads,
    > + Sized
{
    /// The content of each of `n` sent buffers, of a list of `N`.
    fn sent(p: &mut Pair<Rc, Self>, n: usize) -> Vec<u8>;
}

impl Ledgered for DefaultProfile {
    fn sent(p: &mut Pair<Rc, Self>, n: usize) -> Vec<u8> {
        let sent = poll(&p.dev, &mut p.ca, n).into_iter();
        sent.map(|sent| sent.sent().entry.unwrap()[0]).collect()
    }
}

impl Ledgered for Ring {
    fn sent(p: &mut Pair<Rc, Self>, n: usize) -> Vec<u8> {
        // Accepted requests of a list without its signaled end wait for the next signaled send.
        p.b.post_recv(wr::Recv::empty()).unwrap();
        if n < N {
            // The device has room for it.
            until(&p.dev, "the fillers complete", || {
                assert_eq!(poll_empty(&mut p.ca), 0);
                HIDDEN.get() > 0
            });
            p.a.post_send(wr::Send::new(wr::Empty)).unwrap();
            poll(&p.dev, &mut p.cb, 1);
        }
        let mut done = complete(&p.dev, &mut p.ca, &mut p.a, 1);
        let (status, released) = done.remove(0);
        assert_eq!(status, Ok(()));
        released.into_iter().map(|buf| buf[0]).collect()
    }
}

/// The device has room for `k` sends of a list of `N`. It accepts those, and returns the others;
/// only those arrive.
fn at_every_index<P: Ledgered>(post: fn(&mut Pair<Rc, P>) -> Posted) {
    let room = room::<P>();
    for k in 0..=N {
        let mut p = pair::<P>();
        let fillers = room - k;
        assert!((0..fillers).all(|_| fill(&p.a) == 0));
        match post(&mut p) {
            Ok(()) => assert_eq!(k, N),
            Err(error) => {
                assert_eq!(error.accepted(), k);
                assert_eq!(error.kind(), PostErrorKind::Refused { errno: 12 });
                assert!(error.is_full());
                let text =
                    format!("ibv_post_send: work request {k}: ENOMEM: Cannot allocate memory");
                assert!(said(&error).starts_with(&text), "{error}");
                let back: Vec<u8> = error.into_rejected().map(|buf| buf[0]).collect();
                assert_eq!(back, (k as u8..N as u8).collect::<Vec<_>>());
            }
        }
        assert_eq!(p.a.sends_outstanding(), k);
        for _ in 0..fillers + k {
            p.b.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
        }
        let got = poll(&p.dev, &mut p.cb, fillers + k).into_iter().map(|got| got.received());
        let got: Vec<Vec<u8>> = got.map(|got| got.data().to_vec()).collect();
        assert!(got[..fillers].iter().all(Vec::is_empty));
        let taken: Vec<u8> = (0..k as u8).collect();
        assert_eq!(got[fillers..].concat(), taken);
        assert_eq!(P::sent(&mut p, k), taken);
        assert_eq!((p.a.sends_outstanding(), p.a.send_room()), (0, DEPTH as usize));
        drop(p.b);
        assert_eq!((p.pool.available(), poll_empty(&mut p.ca)), (40, 0));
    }
}

fn chain<P: Ledgered>(p: &mut Pair<Rc, P>) -> Posted {
    let send = |i: u8| wr::Send::new(filled(&p.pool, &[i]));
    post_send!(p.a, [send(0), send(1), send(2), send(3)])
}

fn list<P: Ledgered>(p: &mut Pair<Rc, P>) -> Posted {
    let mut slots = SendSlots::<N>::new();
    let mut list = p.a.send_list(&mut slots);
    for i in 0..N as u8 {
        list.push(wr::Send::new(filled(&p.pool, &[i]))).unwrap();
    }
    list.post()
}

/// Proves R9.1, R9.2, R9.6.
#[test]
fn a_chain_at_every_index() {
    at_every_index::<DefaultProfile>(chain);
    at_every_index::<Ring>(chain);
}

/// Proves R9.1.
#[test]
fn of_a_list() {
    at_every_index::<DefaultProfile>(list);
    at_every_index::<Ring>(list);
}
