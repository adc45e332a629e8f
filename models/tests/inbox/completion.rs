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

pub mod stand_in {
    use super::switch::SETS;
    use crate::sys::types::ibv_cq;

    pub struct StandIns([ibv_cq; SETS]);

    pub static STAND_INS: StandIns = StandIns([1, 2, 3]);

    impl StandIns {
        pub fn all(&'static self) -> &'static [ibv_cq; SETS] {
            &self.0
        }
    }
}

/// What other queues are polled for, which no queue of the models is.
pub mod extended {
    pub mod adapter {
        use crate::sys::types::ibv_cq;

        pub struct Row;
        pub enum Extended {}

        impl Extended {
            pub fn queue(&self) -> *mut ibv_cq {
                match *self {}
            }

            pub fn wc_flags(&self) -> u64 {
                match *self {}
            }

            pub fn row(&self, _: usize) -> *const Row {
                match *self {}
            }
        }
    }
}
