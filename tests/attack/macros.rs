//! The posting macros, called in hostile surroundings.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use proverbs::prelude::*;

use crate::support::*;

/// Methods with the names that the macros use, for every type. By the rules of method lookup those
/// that take `&self` come before inherent ones that take `&mut self`, unless the macro's calls are
/// written with care.
#[allow(dead_code)] // they must never be used
mod hijack {
    /// The result of a stolen work request: an entry for a request that was never written.
    pub struct Stolen {
        pub entry: Option<proverbs::Buf>,
        pub known: (),
    }

    impl Stolen {
        pub fn opcode(&self) {}
    }

    pub trait Sends {
        fn vouch(&self) {
            panic!("hijacked")
        }
        fn may_be_forgotten(&self) {
            panic!("hijacked")
        }
        fn is_finished(&self) {
            panic!("hijacked")
        }
        fn slot<A>(&self, _: A) -> [u64; 18] {
            panic!("hijacked")
        }
        fn emit<A, B, C, D, E>(&self, _: A, _: B, _: C, _: D, _: E, _: *mut u8) -> Stolen {
            Stolen { entry: None, known: () }
        }
        fn post<A, B, C>(&self, _: A, _: B, _: C) {}
    }
    impl<T> Sends for T {}

    pub trait Receives {
        fn emit<A, B>(&self, _: A, _: B, _: *mut u8) -> Stolen {
            Stolen { entry: None, known: () }
        }
    }
    impl<T> Receives for T {}
}

/// `post_send!` never calls methods of a trait in the caller's scope.
/// Proves R11.1.
#[test]
fn methods_of_traits_in_scope_are_not_called() {
    let mut p = Pair::<Rc>::new();
    {
        #[allow(unused_imports)]
        use hijack::Receives;
        let recv = || wr::Recv::new(poisoned(&p.pool));
        post_recv!(p.b, [recv(), recv(), recv()]).unwrap();
    }
    {
        #[allow(unused_imports)]
        use hijack::Sends;
        post_send!(p.a, [wr::Send::new(filled(&p.pool, b"ours"))]).unwrap();
        // A macro may be called in a future, which may be suspended there.
        let ours = || wr::Send::new(filled(&p.pool, b"too"));
        post_send!(p.a, [ours(), matches!(p.pool.available(), 1..).then(ours).unwrap()]).unwrap();
    }
    let received = poll(&p.dev, &mut p.cb, 3).into_iter().map(|done| done.received());
    for (message, bytes) in received.zip([b"ours".as_slice(), b"too", b"too"]) {
        assert_eq!(message.data(), bytes);
    }
    poll(&p.dev, &mut p.ca, 3);
}

#[test]
fn a_panic_between_work_requests_posts_nothing() {
    let mut p = Pair::<Rc>::new();
    let attempt = AssertUnwindSafe(|| {
        let (first, nothing) = (filled(&p.pool, &[1]), Vec::<Buf>::new());
        post_send!(
            p.a,
            [wr::Send::new(first), wr::Send::new(nothing.into_iter().next().expect("on purpose"))]
        )
    });
    assert!(catch_unwind(attempt).is_err());
    assert_eq!((p.a.sends_outstanding(), p.a.send_room(), p.pool.available()), (0, 8, 40));
}

/// A buffer that returns from an unfinished list does not name a queue any more, even if its pool
/// is already gone. A later queue may have its counters at the same address, and would take back a
/// buffer that is already free. (A debug build detects that when the queue ends.)
///
/// A buffer of a list that was left early does not name a queue after its return.
#[test]
fn a_list_that_is_left_early_with_buffers_whose_pool_is_gone() {
    fails_on!(Iwarp, "R24.5");
    profile! { Counted { entry: Buf<Arc<()>> } }
    let none = || -> Option<Buf<Arc<()>>> { None };
    for is_send in [true, false] {
        let mut p = Pair::<Rc, Counted>::new();
        let (held, other) = (Arc::new(()), Arc::new(()));
        let pool = p.pd.pool(64).contexts(|_| held.clone()).create(4).unwrap();
        let arena = p.pd.arena(4).contexts(|_| held.clone()).create(256).unwrap();
        let others = p.pd.pool(64).contexts(|_| other.clone()).create(4).unwrap();
        let rest = (pool.take().unwrap(), arena.take(8).unwrap());
        let bufs = [pool.take().unwrap(), arena.take(8).unwrap()];
        drop((pool, arena));
        for buf in bufs {
            let left_early = || -> Option<()> {
                let _ = match is_send {
                    true => post_send!(p.a, [wr::Send::new(buf), wr::Send::new(none()?)]),
                    false => post_recv!(p.a, [wr::Recv::new(buf), wr::Recv::new(none()?)]),
                };
                Some(())
            };
            assert_eq!({ left_early }(), None);
        }
        drop(p.a);
        // Other queues, perhaps with counters at that address, that leave buffers behind.
        let depth = Depth { send: 4, recv: 4 };
        let made = || p.pd.create_qp::<Rc, Counted>(&p.ca, &p.ca, depth).unwrap();
        for qp in [(); 4].map(|()| made()) {
            let init = ConnectedInit { pkey_index: 0, port: 1, access: QpAccess::all() };
            let mut qp = qp.modify(init).unwrap();
            qp.post_recv(wr::Recv::new(others.take().unwrap())).unwrap();
            qp.post_recv(wr::Recv::empty()).unwrap();
        }
        poll_empty(&mut p.ca);
        assert_eq!(others.available(), 4);
        // As many as before: the buffers of `rest` exist, and keep the others.
        assert_eq!(Arc::strong_count(&held), 9);
        drop(rest);
        assert_eq!(Arc::strong_count(&held), 1);
    }
}
