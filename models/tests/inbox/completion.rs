//! The shared parts of `src/completion`.

#[allow(dead_code)] // the models use only a part of it
#[path = "../../../src/completion/attachments.rs"]
pub mod attachments;
#[allow(dead_code)] // the models use only a part of it
#[path = "../../../src/completion/deferred_destroy.rs"]
pub mod deferred_destroy;
#[allow(dead_code)] // the models use only a part of it
#[path = "../../../src/completion/inbox.rs"]
pub mod inbox;
#[allow(dead_code)] // the models use only a part of it
#[path = "../../../src/completion/polled_queue.rs"]
pub mod polled_queue;

#[path = "poll.rs"]
pub mod poll;

/// The completion queue, without the C object.
pub mod booking {
    use std::sync::{Arc, Mutex};

    use super::deferred_destroy::Over;
    use super::inbox::Inbox;

    pub struct CqShared {
        pub inbox: Arc<Inbox>,
        /// The number of queues that its end returned.
        pub returned: Arc<Mutex<Option<usize>>>,
    }

    impl CqShared {
        pub fn new(inbox: Arc<Inbox>) -> Arc<CqShared> {
            let shared = Arc::new(CqShared { inbox, returned: Arc::default() });
            shared.inbox.belongs_to(&shared);
            shared
        }
    }

    impl Drop for CqShared {
        fn drop(&mut self) {
            let mut over = Over::default();
            self.inbox.close_for_all(&mut over);
            let before = self.returned.lock().unwrap().replace(over.give_back());
            assert_eq!(before, None, "destroyed once");
        }
    }
}

/// Counts the completions of a queue with a budget; the models count them themselves.
pub mod counted {
    use std::sync::Arc;

    use crate::counters::tally::CqTally;
    use crate::sys::types::ibv_cq;

    pub struct Counted(*mut ibv_cq);

    #[derive(Default)]
    pub struct Counts {
        pub is_shared: bool,
    }

    impl Counted {
        pub fn new(queue: *mut ibv_cq, counts: Counts) -> Option<Arc<Counted>> {
            #[allow(clippy::arc_with_non_send_sync)] // as the inbox says, which has it
            counts.is_shared.then(|| Arc::new(Counted(queue)))
        }

        pub fn is_shared(&self) -> bool {
            true
        }

        pub fn tally(&self) -> Option<&Arc<CqTally>> {
            None
        }

        pub fn queue(self: &Arc<Self>) -> *mut ibv_cq {
            self.0
        }
    }
}

/// Extended polling, which the queues of the models do not use.
pub mod adapter {
    use crate::sys::types::ibv_cq;

    pub struct Row;
    pub struct Extended {
        pub wc_flags: u64,
    }

    impl Extended {
        pub fn queue(&self) -> *mut ibv_cq {
            unreachable!("no queue of the models")
        }

        pub fn row(&self, _: usize) -> *const Row {
            unreachable!("no queue of the models")
        }
    }
}
