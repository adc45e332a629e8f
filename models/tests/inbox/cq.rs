//! `src/cq`, what of it is shared.

#[allow(dead_code)] // all that the crate uses
#[path = "../../../src/cq/inbox.rs"]
pub mod inbox;
#[allow(dead_code)] // all that the crate uses
#[path = "../../../src/cq/switch.rs"]
pub mod switch;

#[path = "poll.rs"]
pub mod poll;

/// Queue pairs that were dropped, which are not played.
pub mod parked {
    use crate::in_flight::Quiet;

    pub struct Parked;

    impl Parked {
        pub fn end(&self, _: &mut Over) {}
    }

    #[derive(Default)]
    pub struct Over {
        pub quiet: Quiet,
    }
}

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
