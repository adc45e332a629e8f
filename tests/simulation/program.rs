//! Programs: a world's configuration, and the steps that run in it. Every number in a step is taken
//! modulo the number of objects, so that any part of a program is a program, and a failing one can
//! be shortened.

use proverbs::completion::WcStatus;
use proverbs::loopback::{Fault, Personality, Script};
use proverbs::transport::Transport;
use rand_core::{RngCore, SeedableRng};
use rand_pcg::Pcg32;

/// The source of random numbers.
pub struct Dice(Pcg32);

impl Dice {
    pub fn new(seed: u64) -> Dice {
        Dice(Pcg32::seed_from_u64(seed))
    }

    /// A number below `n`.
    pub fn below(&mut self, n: u32) -> u32 {
        ((u64::from(self.0.next_u32()) * u64::from(n)) >> 32) as u32
    }

    pub fn one_in(&mut self, n: u32) -> bool {
        self.below(n) == 0
    }

    pub fn seed(&mut self) -> u64 {
        u64::from(self.0.next_u32()) << 32 | u64::from(self.0.next_u32())
    }
}

/// Transport, signaling and receive source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Make {
    RcAll,
    RcSelective,
    RcAllShared,
    RcSelectiveShared,
    UcAll,
    UcSelective,
    UdAll,
    UdSelective,
    UdAllShared,
    UdSelectiveShared,
}

const MAKES: [Make; 10] = [
    Make::RcAll,
    Make::RcSelective,
    Make::RcAllShared,
    Make::RcSelectiveShared,
    Make::UcAll,
    Make::UcSelective,
    Make::UdAll,
    Make::UdSelective,
    Make::UdAllShared,
    Make::UdSelectiveShared,
];

/// The configuration of a world.
#[derive(Clone, Debug)]
pub struct Config {
    pub make: Make,
    pub personality: Personality,
    /// Queue pairs, connected in pairs.
    pub pairs: usize,
    pub cqs: usize,
    /// Room of completion queues at first, beyond bookings; `None`: plenty.
    pub spare: Option<u32>,
    /// Whether their entries are shared: each post claims what it needs.
    pub shares: bool,
    pub send_depth: u32,
    pub recv_depth: u32,
    pub buffers: usize,
    /// `rnr_retry`; `None` means forever.
    pub rnr_retry: Option<u8>,
    /// Whether a lost message is sent again.
    pub timeout: bool,
    /// Whether work requests without a buffer are posted; then a reset is settled at once, since
    /// only the order distinguishes their completions.
    pub bufferless: bool,
    /// Whether messages are sent that are longer than some receives, and receives without a buffer
    /// posted.
    pub short: bool,
    pub script_seed: u64,
    pub faults: Vec<Chance>,
}

/// A fault that happens once in this many occasions.
#[derive(Clone, Copy, Debug)]
pub struct Chance(pub Fault, pub u32);

impl Config {
    pub fn draw(dice: &mut Dice) -> Config {
        let make = MAKES[dice.below(MAKES.len() as u32) as usize];
        let pairs = 1 + dice.below(3) as usize;
        let mut faults = Vec::new();
        if !dice.one_in(4) {
            for fault in ALL {
                if dice.one_in(3) {
                    let rare =
                        matches!(fault, Fault::BreakCq | Fault::FailPoll | Fault::NeverReady);
                    let often = 4 + dice.below(60);
                    // It has few occasions.
                    let common = matches!(fault, Fault::FlushLate { .. });
                    let often = match (rare, common) {
                        (true, _) => often * 20,
                        (_, true) => 1 + often % 3,
                        _ if fault == Fault::Busy => 2 + often % 3,
                        _ => often,
                    };
                    faults.push(Chance(fault, often));
                }
            }
        }
        let personality = match dice.below(4) {
            0 => Personality::Plain,
            1 => Personality::Rxe,
            2 => Personality::Mlx5,
            _ => Personality::worst(dice.seed()),
        };
        Config {
            make,
            personality,
            pairs,
            cqs: 1 + dice.below(3) as usize,
            spare: if dice.one_in(2) { Some(dice.below(60)) } else { None },
            shares: dice.one_in(3),
            send_depth: 1 + dice.below(9),
            recv_depth: 1 + dice.below(9),
            buffers: 4 + dice.below(40) as usize,
            rnr_retry: [None, None, Some(0), Some(1), Some(3)][dice.below(5) as usize],
            timeout: !dice.one_in(3),
            bufferless: dice.one_in(2),
            short: dice.one_in(4),
            script_seed: dice.seed(),
            faults,
        }
    }

    /// Whether the completions of a destroyed queue pair may be removed with it.
    pub fn takes_completions_along(&self) -> bool {
        !matches!(self.personality, Personality::Plain | Personality::Rxe)
    }

    pub fn script<T: Transport>(&self) -> Script {
        let script = Script::seeded(self.script_seed);
        self.faults.iter().fold(script, |script, chance| {
            let rule = chance.0.one_in(chance.1);
            // Only queue pairs refuse to be destroyed.
            script.with(if chance.0 == Fault::Busy { rule.on_transport::<T>() } else { rule })
        })
    }

    pub fn has(&self, fault: impl Fn(Fault) -> bool) -> bool {
        self.faults.iter().any(|chance| fault(chance.0))
    }
}

const ALL: [Fault; 20] = [
    Fault::Lose,
    Fault::Duplicate,
    Fault::Delay { runs: 1 },
    Fault::Delay { runs: 9 },
    Fault::NotReady,
    Fault::NeverReady,
    Fault::NoAnswer,
    Fault::Fail(WcStatus::RemOp),
    Fault::Fail(WcStatus::LocProt),
    Fault::Fail(WcStatus::General),
    Fault::ToError,
    Fault::FlushLate { runs: 30 },
    Fault::Refuse { errno: 12 },
    Fault::Refuse { errno: 22 },
    Fault::OutcomeUnknown { errno: 22, taken: true },
    Fault::OutcomeUnknown { errno: 5, taken: false },
    Fault::SpuriousEvent,
    Fault::BreakCq,
    Fault::FailPoll,
    Fault::Busy,
];

/// One action of a program.
#[derive(Clone, Debug)]
pub enum Step {
    Send {
        qp: u8,
        form: Form,
        work: Vec<Work>,
    },
    Receive {
        qp: u8,
        form: Form,
        into: Vec<Into>,
    },
    Poll {
        cq: u8,
        most: u8,
        then: Then,
    },
    /// Arms it, and polls by its channel.
    Arm {
        cq: u8,
    },
    /// One transition towards RTS.
    Advance {
        qp: u8,
    },
    ToError {
        qp: u8,
    },
    Reset {
        qp: u8,
    },
    Stop {
        qp: u8,
    },
    /// SQD or SQE to RTS.
    Resume {
        qp: u8,
    },
    /// Both ends to RESET, and up again to each other.
    Reconnect {
        qp: u8,
    },
    Drain {
        qp: u8,
    },
    Destroy {
        qp: u8,
        politely: bool,
    },
    /// A new one instead of one that is gone.
    Create {
        qp: u8,
    },
    Reclaim {
        cq: u8,
    },
    /// To more than is booked, or at most 20 less.
    Resize {
        cq: u8,
        by: u8,
    },
    /// It leaks, and still works.
    Forget {
        qp: u8,
    },
    /// The device fails by itself.
    Fail {
        qp: u8,
    },
    /// Frees the buffers that the program kept.
    LetGo,
}

/// How a list is posted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    One,
    Unsignaled,
    Chain,
    List,
    /// Filled, and dropped.
    DroppedList,
}

/// The memory for a receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Into {
    Buf,
    Pair,
    Nothing,
}

/// The use of a completion's entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    Keep,
    Drop,
    /// The completion is dropped unused: one of a ring then releases nothing.
    Ignore,
    Forget,
}

#[derive(Clone, Copy, Debug)]
pub struct Work {
    pub what: What,
    pub data: Carrier,
    pub len: u8,
    pub at: u8,
    pub flag: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    Send,
    SendImm,
    Write,
    WriteImm,
    Read,
    Swap,
    Add,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carrier {
    Buf,
    Pair,
    Shared,
    Open,
    Inline,
    Empty,
}

fn work(dice: &mut Dice) -> Work {
    use What::*;
    let what = [Send, Send, SendImm, Write, Write, WriteImm, Read, Swap, Add];
    let data = [
        Carrier::Buf,
        Carrier::Buf,
        Carrier::Buf,
        Carrier::Pair,
        Carrier::Shared,
        Carrier::Open,
        Carrier::Inline,
        Carrier::Empty,
    ];
    Work {
        what: what[dice.below(9) as usize],
        data: data[dice.below(8) as usize],
        len: dice.below(121) as u8,
        at: dice.below(64) as u8,
        flag: dice.one_in(3),
    }
}

pub fn step(dice: &mut Dice) -> Step {
    let qp = dice.below(6) as u8;
    let cq = dice.below(3) as u8;
    match dice.below(100) {
        0..28 => {
            let form = [Form::One, Form::Unsignaled, Form::Chain, Form::List, Form::List];
            let mut form = form[dice.below(5) as usize];
            if dice.one_in(40) {
                form = Form::DroppedList;
            }
            let n =
                if matches!(form, Form::One | Form::Unsignaled) { 1 } else { 1 + dice.below(5) };
            Step::Send { qp, form, work: (0..n).map(|_| work(dice)).collect() }
        }
        28..52 => {
            let form = [Form::One, Form::Chain, Form::List][dice.below(3) as usize];
            let n = if form == Form::One { 1 } else { 1 + dice.below(5) };
            let into = [Into::Pair, Into::Nothing, Into::Buf, Into::Buf, Into::Buf, Into::Buf];
            let into = (0..n).map(|_| into[dice.below(6) as usize]).collect();
            Step::Receive { qp, form, into }
        }
        52..82 => {
            let then = match dice.below(200) {
                0..100 => Then::Drop,
                100..190 => Then::Keep,
                190..199 => Then::Ignore,
                _ => Then::Forget,
            };
            Step::Poll { cq, most: dice.below(20) as u8, then }
        }
        82..87 => Step::Reconnect { qp },
        87 => Step::ToError { qp },
        88 => Step::Reset { qp },
        89 => Step::Stop { qp },
        90 => Step::Resume { qp },
        91 => Step::Advance { qp },
        92 => Step::Drain { qp },
        93 => Step::Destroy { qp, politely: dice.one_in(2) },
        94..96 => Step::Create { qp },
        96 => Step::Reclaim { cq },
        97 if dice.one_in(3) => Step::Fail { qp },
        97 if dice.one_in(2) => Step::Resize { cq, by: dice.below(100) as u8 },
        98 => Step::Arm { cq },
        99 if dice.one_in(6) => Step::Forget { qp },
        _ => Step::LetGo,
    }
}
