//! `src/completion`, what of it is shared.

#[allow(dead_code)] // all that the crate uses
#[path = "../../../src/completion/attached.rs"]
pub mod attached;
#[allow(dead_code)] // all that the crate uses
#[path = "../../../src/completion/inbox.rs"]
pub mod inbox;
#[allow(dead_code)] // all that the crate uses
#[path = "../../../src/completion/parked.rs"]
pub mod parked;
#[allow(dead_code)] // all that the crate uses
#[path = "../../../src/completion/switch.rs"]
pub mod switch;

#[path = "poll.rs"]
pub mod poll;

/// What other queues are polled for, which no queue of the models is.
pub mod extended {
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
}
