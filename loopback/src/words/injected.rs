//! How often each fault was injected.

use crate::words::script::Fault;

macro_rules! injected {
    ($($counter:ident: $fault:ident;)*) => {
        /// The number of times that each [`Fault`] of the loopback device was injected:
        /// `Fabric::injected`.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct Injected {
            $(
                #[doc = concat!("[`Fault::", stringify!($fault), "`].")]
                pub $counter: u64,
            )*
        }

        impl Injected {
            pub(crate) fn count(&mut self, fault: Fault) {
                match fault {
                    $(Fault::$fault { .. } => self.$counter += 1,)*
                }
            }

            /// The name and number of each kind.
            pub fn by_kind(&self) -> [(&'static str, u64); 17] {
                [$((stringify!($fault), self.$counter)),*]
            }
        }
    };
}

injected! {
    lose: Lose;
    duplicate: Duplicate;
    delay: Delay;
    not_ready: NotReady;
    never_ready: NeverReady;
    no_answer: NoAnswer;
    fail: Fail;
    to_error: ToError;
    flush_late: FlushLate;
    refuse: Refuse;
    outcome_unknown: OutcomeUnknown;
    spurious_event: SpuriousEvent;
    break_cq: BreakCq;
    fail_poll: FailPoll;
    busy: Busy;
    gives_up: GivesUp;
    rereg: Rereg;
}
