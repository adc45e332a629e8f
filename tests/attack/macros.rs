//! The posting macros, called where everything around them is hostile.

use std::panic::{AssertUnwindSafe, catch_unwind};

use proverbs::prelude::*;

use crate::support::*;

/// Methods of the names that the macros use, for every type there is. By the rules of method lookup
/// those that take `&self` come before inherent ones that take `&mut self`, unless the call is
/// written with care.
#[allow(dead_code)] // never used is what they shall be
mod hijack {
    /// What a stolen work request would leave: an entry for one that was never written.
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

#[test]
fn methods_of_traits_in_scope_are_not_taken_for_ours() {
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
        // What calls a macro may be a future that waits there.
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
