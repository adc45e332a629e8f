//! Fault scripts: which faults happen on a fabric, when, and to which objects.

use std::ffi::c_int;

use rand_core::SeedableRng;
use rand_pcg::Pcg32;

use crate::words::below;
use crate::words::transport::Transport;
use proverbs_sys::terms::wc::{Direction, WcStatus};

/// A fault of the [loopback](crate) device.
///
/// [`nth`](Fault::nth), [`one_in`](Fault::one_in) or [`always`](Fault::always) choose the occasions
/// on which it happens, and make it a [`Rule`] of a [`Script`].
///
/// ```
/// use proverbs::loopback::{Fault, Rule, Script};
/// use proverbs::{completion::WcStatus, transport::{Rc, Uc}};
///
/// let lossy: Rule = Fault::Lose.one_in(100).on_transport::<Uc>();
/// let cut: Rule = Fault::NoAnswer.always().on_qp(0x11);
/// let broken: Rule = Fault::Fail(WcStatus::RemOp).nth(7).on_transport::<Rc>();
/// let late: Rule = Fault::Delay { runs: 3 }.always().times(5);
/// let script = Script::seeded(1).with(lossy).with(cut).with(broken).with(late);
/// # let _ = script;
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// The message is lost. On UC and UD it is lost for good, and the send still succeeds
    /// ([R10.10]). On RC the first transmission is lost, and the message is sent again. With a
    /// `retry_cnt` of 0 the send fails instead; with `Timeout::Infinite` the queue stalls.
    ///
    /// [R10.10]: https://docs.rs/proverbs/latest/proverbs/guide/rules/index.html#r10-10
    Lose,
    /// The message arrives twice (UC and UD; on RC the receiver recognises the duplicate by its
    /// number).
    Duplicate,
    /// The message arrives `runs` runs later, so later ones may overtake it (UC and UD). On RC the
    /// messages behind it wait. A run is any verb that is not a post.
    Delay {
        /// The number of runs of the device.
        runs: u32,
    },
    /// The receiver is not ready (RNR) at the first try, even if it has posted a receive, and is
    /// ready at the second. It affects sends on RC that consume a receive; with an `rnr_retry` of 0
    /// they fail at once.
    NotReady,
    /// The receiver is never ready: `RnrRetryExc` after the retries (RC, sends that consume a
    /// receive).
    NeverReady,
    /// No answer comes: `RetryExc` after the retries, or never with `Timeout::Infinite` (RC).
    NoAnswer,
    /// The work request fails with this status, and has no effect. The queue pair stops, as after
    /// any failure: RC in ERR, UC and UD in SQE ([R8.16]).
    ///
    /// [R8.16]: https://docs.rs/proverbs/latest/proverbs/guide/rules/index.html#r8-16
    Fail(WcStatus),
    /// The device moves the queue pair to ERR when it reaches the work request. The request and all
    /// behind it are flushed.
    ToError,
    /// A queue pair that enters ERR flushes its work `runs` runs later
    /// ([R7.15]). A run is any verb that is not a post.
    ///
    /// [R7.15]: https://docs.rs/proverbs/latest/proverbs/guide/rules/index.html#r7-15
    FlushLate {
        /// The number of runs of the device.
        runs: u32,
    },
    /// The post fails with this errno at this work request, which is `*bad_wr` ([R9.1]).
    ///
    /// [R9.1]: https://docs.rs/proverbs/latest/proverbs/guide/rules/index.html#r9-1
    Refuse {
        /// For example `libc::ENOMEM` or `libc::EINVAL`.
        errno: c_int,
    },
    /// The post fails with this errno and a NULL `bad_wr` ([R8.20], [R9.4]).
    ///
    /// [R8.20]: https://docs.rs/proverbs/latest/proverbs/guide/rules/index.html#r8-20
    /// [R9.4]: https://docs.rs/proverbs/latest/proverbs/guide/rules/index.html#r9-4
    OutcomeUnknown {
        /// For example `libc::EINVAL`.
        errno: c_int,
        /// Whether the device has nevertheless accepted this work request and those behind it in
        /// the list, or none of them.
        taken: bool,
    },
    /// A completion queue raises its event as soon as it is armed, with or without a completion
    /// ([R13.4]).
    ///
    /// [R13.4]: https://docs.rs/proverbs/latest/proverbs/guide/rules/index.html#r13-4
    SpuriousEvent,
    /// The completion queue breaks: this poll and all later ones are errors ([R10.12]).
    ///
    /// [R10.12]: https://docs.rs/proverbs/latest/proverbs/guide/rules/index.html#r10-12
    BreakCq,
    /// This poll fails after it has written some completions, which are lost. Later polls work,
    /// like mlx5's after an entry that it cannot read.
    FailPoll,
    /// Destroying an object fails with EBUSY, and the object stays.
    Busy,
    /// Deregistering a region that peers can access waits for a peer's request, gives up after 200
    /// ms, and returns 0. The region is still accessible. This happens if the
    /// [provider](crate::World::provider) is [`Rxe`](proverbs_sys::provider::Provider::Rxe):
    /// Linux's Soft-RoCE gives up after 200 ms to 50 s, depending on the kernel
    /// (`docs/providers.md`).
    GivesUp,
    /// Re-registering a region fails with this code of `enum ibv_rereg_mr_err_code`
    /// ([R6.15]).
    ///
    /// [R6.15]: https://docs.rs/proverbs/latest/proverbs/guide/rules/index.html#r6-15
    Rereg {
        /// -1 or -2: nothing changed. -3: the region has changed. -4 or -5: it must not be used any
        /// more.
        code: c_int,
    },
}

/// An occasion on which a fault may happen.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Occasion {
    /// The device starts a work request.
    Begin {
        qp: u32,
        transport: Transport,
        uses_receive: bool,
        /// The destination LID; 0 on fabrics without LIDs.
        lid: u16,
    },
    /// The queue pair enters ERR.
    Flush {
        qp: u32,
        transport: Transport,
    },
    /// A work request is posted to a queue pair or to a shared receive queue.
    Post {
        qp: Option<u32>,
        transport: Option<Transport>,
        direction: Direction,
    },
    Arm,
    Poll,
    /// A region is about to be deregistered.
    Dereg,
    /// A region is about to be re-registered.
    Rereg,
    /// A queue pair or another object is about to be destroyed.
    Destroy {
        qp: Option<u32>,
        transport: Option<Transport>,
    },
}

impl Fault {
    /// This fault on the `n`th occasion, counted from 0, and on no other.
    ///
    /// # Panics
    /// If the fault's `errno` is not positive, its `code` is not between -5 and -1, or its status
    /// is success. `one_in` and `always` panic likewise.
    pub fn nth(self, n: u64) -> Rule {
        Rule::new(self, When::Nth(n))
    }

    /// This fault on one occasion in `n`, chosen by the script's seed; never if `n` is 0.
    ///
    /// # Panics
    /// As for [`nth`](Self::nth).
    pub fn one_in(self, n: u32) -> Rule {
        Rule::new(self, When::OneIn(n))
    }

    /// This fault on every occasion.
    ///
    /// # Panics
    /// As for [`nth`](Self::nth).
    pub fn always(self) -> Rule {
        Rule::new(self, When::OneIn(1))
    }

    fn fits(self, occasion: Occasion) -> bool {
        match (self, occasion) {
            (
                Fault::Lose | Fault::Delay { .. } | Fault::Fail(_) | Fault::ToError,
                Occasion::Begin { .. },
            ) => true,
            (Fault::Duplicate, Occasion::Begin { transport, .. }) => !transport.resends(),
            (Fault::NoAnswer, Occasion::Begin { transport, .. }) => transport.resends(),
            (
                Fault::NotReady | Fault::NeverReady,
                Occasion::Begin { transport, uses_receive, .. },
            ) => transport.resends() && uses_receive,
            (Fault::Refuse { .. } | Fault::OutcomeUnknown { .. }, Occasion::Post { .. }) => true,
            (Fault::FlushLate { .. }, Occasion::Flush { .. }) => true,
            (Fault::SpuriousEvent, Occasion::Arm) => true,
            (Fault::BreakCq | Fault::FailPoll, Occasion::Poll) => true,
            (Fault::Busy, Occasion::Destroy { .. }) => true,
            (Fault::GivesUp, Occasion::Dereg) => true,
            (Fault::Rereg { .. }, Occasion::Rereg) => true,
            _ => false,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum When {
    Nth(u64),
    OneIn(u32),
}

/// A [`Fault`], with its occasions and objects: part of a [`Script`] for the loopback device.
///
/// The occasions of a rule are the occasions of its fault that pass its filters: work requests that
/// the device starts, queue pairs that enter ERR, work requests that are posted, armings, polls,
/// objects that are destroyed, and regions that are deregistered or re-registered.
///
/// [`Fault`] and [`Fabric`] have examples.
///
/// [`Fabric`]: https://docs.rs/proverbs/latest/proverbs/loopback/struct.Fabric.html
#[derive(Clone, Debug)]
#[must_use = "a rule has no effect until it is part of a script"]
pub struct Rule {
    fault: Fault,
    when: When,
    qp: Option<u32>,
    qp_type: Option<u32>,
    direction: Option<Direction>,
    lid: Option<u16>,
    /// How many more times it happens.
    left: u64,
    seen: u64,
}

impl Rule {
    fn new(fault: Fault, when: When) -> Rule {
        match fault {
            Fault::Refuse { errno } | Fault::OutcomeUnknown { errno, .. } => {
                assert!(
                    errno > 0,
                    "{fault:?}: a post that returns {errno} succeeded; the errno \
                    must be positive"
                );
            }
            Fault::Fail(status) => {
                assert!(status.to_c() != 0, "{fault:?}: the status must not be success");
            }
            Fault::Rereg { code } => {
                assert!(
                    (-5..0).contains(&code),
                    "{fault:?}: the code must be from -5 to -1 \
                    (ibv_rereg_mr(3))"
                );
            }
            _ => {}
        }
        Rule {
            fault,
            when,
            qp: None,
            qp_type: None,
            direction: None,
            lid: None,
            left: u64::MAX,
            seen: 0,
        }
    }

    /// Limits the rule to work requests of the queue pair with this number (not of an SRQ).
    pub fn on_qp(mut self, qp_num: u32) -> Rule {
        self.qp = Some(qp_num);
        self
    }

    /// Limits the rule to work requests of queue pairs of transport `T` (not of an SRQ).
    pub fn on_transport<T: proverbs_sys::terms::transport::Transport>(mut self) -> Rule {
        self.qp_type = Some(T::QP_TYPE);
        self
    }

    /// Limits the rule to posts of sends, or of receives.
    pub fn posting(mut self, direction: Direction) -> Rule {
        self.direction = Some(direction);
        self
    }

    /// Limits the rule to work requests that are sent to this LID, on
    /// [InfiniBand](crate::World::infiniband), as if its path were broken. A work request that the
    /// device sends again by an alternate path is another occasion ([`AlternatePath`] has an
    /// example).
    ///
    /// [`AlternatePath`]:
    /// https://docs.rs/proverbs/latest/proverbs/ext/path_migration/struct.AlternatePath.html
    pub fn to_lid(mut self, lid: u16) -> Rule {
        self.lid = Some(lid);
        self
    }

    /// Limits the rule to `n` faults.
    pub fn times(mut self, n: u64) -> Rule {
        self.left = n;
        self
    }

    fn lets_through(&self, occasion: Occasion) -> bool {
        let is = |qp: Option<u32>, transport: Option<Transport>| {
            self.qp.is_none_or(|only| qp == Some(only))
                && self.qp_type.is_none_or(|only| transport.map(Transport::to_c) == Some(only))
        };
        self.fault.fits(occasion)
            && match occasion {
                Occasion::Begin { qp, transport, lid, .. } => {
                    is(Some(qp), Some(transport)) && self.lid.is_none_or(|only| only == lid)
                }
                Occasion::Flush { qp, transport } => is(Some(qp), Some(transport)),
                Occasion::Post { qp, transport, direction } => {
                    is(qp, transport) && self.direction.is_none_or(|only| only == direction)
                }
                Occasion::Destroy { qp, transport } => is(qp, transport),
                Occasion::Arm | Occasion::Poll | Occasion::Dereg | Occasion::Rereg => true,
            }
    }

    /// Counts this occasion, and returns whether the fault happens on it.
    fn strikes(&mut self, rng: &mut Pcg32) -> bool {
        let number = self.seen;
        self.seen += 1;
        let strikes = match self.when {
            When::Nth(n) => n == number,
            When::OneIn(0) => false,
            When::OneIn(1) => true,
            When::OneIn(n) => below(rng, n) == 0,
        };
        let strikes = strikes && self.left > 0;
        self.left -= strikes as u64;
        strikes
    }
}

/// The faults of a [`Fabric`]: rules, and the seed of the random ones.
///
/// On each occasion the rules are tried in order, and the first one whose fault happens decides.
/// The same script makes the same faults in the same program: the generator (PCG-32) is part of the
/// interface.
///
/// ```
/// use proverbs::{
///     completion::{Direction, WcStatus},
///     loopback::{Fabric, Fault, Script},
///     transport::Uc,
/// };
///
/// let fabric = Fabric::new();
/// fabric.inject(
///     Script::seeded(7)
///         .with(Fault::Lose.one_in(10).on_transport::<Uc>())
///         .with(Fault::Fail(WcStatus::RemOp).nth(1000))
///         .with(Fault::Refuse { errno: 12 }.one_in(50).posting(Direction::Send).times(3)),
/// );
/// # let _ = fabric;
/// ```
///
/// [`Fabric`]: https://docs.rs/proverbs/latest/proverbs/loopback/struct.Fabric.html
#[derive(Clone, Debug)]
pub struct Script {
    rules: Vec<Rule>,
    rng: Pcg32,
}

impl Default for Script {
    /// A script without faults.
    fn default() -> Script {
        Script::seeded(0)
    }
}

impl Script {
    /// A script without rules. The seed is for rules made by [`one_in`](Fault::one_in).
    pub fn seeded(seed: u64) -> Script {
        Script { rules: Vec::new(), rng: Pcg32::seed_from_u64(seed) }
    }

    /// Adds a rule after the others.
    #[must_use]
    pub fn with(mut self, rule: Rule) -> Script {
        self.rules.push(rule);
        self
    }

    /// Decides which fault happens on this occasion. Every rule counts the occasions that fit it.
    pub(crate) fn decide(&mut self, occasion: Occasion) -> Option<Fault> {
        let mut decided = None;
        for rule in &mut self.rules {
            if rule.lets_through(occasion) && rule.strikes(&mut self.rng) {
                // If an earlier rule has decided, this rule skips the occasion and counts no fault.
                match decided {
                    None => decided = Some(rule.fault),
                    Some(_) => rule.left = rule.left.saturating_add(1),
                }
            }
        }
        decided
    }
}
