//! All objects of the fabric, and the capabilities of their devices.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::objects::channel::Channel;
use crate::objects::cq::Cq;
use crate::objects::device_memory::Dm;
use crate::objects::domains::{Ah, Joint, Member, Pd, Td, Xrcd};
use crate::objects::events::AsyncEvents;
use crate::objects::faults::Faults;
use crate::objects::memory::Mr;
use crate::objects::qp::{Cause, Qp, Wait};
use crate::objects::srq::Srq;
use crate::objects::window::Window;
use crate::words::address::{Gid, Gids};
use crate::words::personality::Habits;
use crate::words::shuffle::Shuffle;
use crate::words::world::{Link, World};
use crate::words::{Verb, limits};

/// QP numbers 0 and 1 are reserved, and 2^24 - 1 stands for all members of a group.
const FIRST_NUMBER: u32 = 0x11;
const LAST_NUMBER: u32 = limits::BITS_24;

/// All objects of the fabric, by number. Like kernels, it reuses a number as late as possible: a
/// stale one finds nothing until 2^24 others were taken.
#[derive(Default)]
pub(crate) struct State {
    /// The last number taken.
    pub(crate) numbers: u32,
    pub(crate) devices: BTreeMap<u32, Gids>,
    pub(crate) pds: BTreeMap<u32, Pd>,
    pub(crate) tds: BTreeMap<u32, Td>,
    pub(crate) joints: BTreeMap<u32, Joint>,
    /// The queues and queue pairs that one thread uses.
    pub(crate) members: BTreeMap<u32, Member>,
    pub(crate) mrs: BTreeMap<u32, Mr>,
    pub(crate) dms: BTreeMap<u32, Dm>,
    pub(crate) windows: BTreeMap<u32, Window>,
    /// The numbers of deallocated windows, on devices that reuse them.
    pub(crate) free_windows: Vec<u32>,
    pub(crate) ahs: BTreeMap<u32, Ah>,
    /// The queue pairs that are attached to each group.
    pub(crate) groups: BTreeSet<(Gid, u32)>,
    pub(crate) channels: BTreeMap<u32, Channel>,
    pub(crate) cqs: BTreeMap<u32, Cq>,
    pub(crate) srqs: BTreeMap<u32, Srq>,
    pub(crate) xrcds: BTreeMap<u32, Xrcd>,
    pub(crate) qps: BTreeMap<u32, Qp>,
    /// By device.
    pub(crate) asyncs: BTreeMap<u32, AsyncEvents>,
    /// The QPs that the engine must look at.
    pub(crate) active: BTreeSet<u32>,
    pub(crate) faults: Faults,
    pub(crate) habits: Habits,
    /// The order of unordered messages.
    pub(crate) shuffle: Shuffle,
    pub(crate) world: World,
    /// The broken devices.
    pub(crate) broken: BTreeSet<u32>,
    /// Datagrams with a wrong Q_Key, by the device that dropped them (R5.5).
    pub(crate) qkey_violations: BTreeMap<u32, u16>,
    pub(crate) devices_opened: u32,
    /// The place of each device that replaced another.
    pub(crate) places: BTreeMap<u32, u32>,
    /// The number of completions so far.
    pub(crate) completions: u64,
    /// The time by the clock, once a test has stopped it.
    pub(crate) clock: Option<Duration>,
    #[cfg(feature = "cm")]
    pub(crate) cm: crate::objects::cm::Cm,
}

impl State {
    /// A number for a new object. It has 24 bits, since it serves as QP number and in memory keys.
    pub(crate) fn number(&mut self) -> Verb<u32> {
        for _ in FIRST_NUMBER..LAST_NUMBER {
            let next = self.numbers + 1;
            self.numbers =
                if (FIRST_NUMBER..LAST_NUMBER).contains(&next) { next } else { FIRST_NUMBER };
            if !self.is_taken(self.numbers) {
                return Ok(self.numbers);
            }
        }
        Err(libc::ENOMEM)
    }

    /// Whether an object has the number.
    fn is_taken(&self, number: u32) -> bool {
        #[cfg(feature = "cm")]
        if self.cm.has(number) {
            return true;
        }
        self.pds.contains_key(&number)
            || self.tds.contains_key(&number)
            || self.joints.contains_key(&number)
            || self.members.contains_key(&number)
            || self.mrs.contains_key(&number)
            || self.dms.contains_key(&number)
            || self.windows.contains_key(&number)
            || self.ahs.contains_key(&number)
            || self.channels.contains_key(&number)
            || self.cqs.contains_key(&number)
            || self.srqs.contains_key(&number)
            || self.xrcds.contains_key(&number)
            || self.qps.contains_key(&number)
    }

    /// The number that names and addresses a device. A replacement takes over the number of the
    /// device that it replaces.
    pub(crate) fn place_of(&self, device: u32) -> u32 {
        self.places.get(&device).copied().unwrap_or(device)
    }

    /// A broken device refuses all verbs except those that destroy.
    pub(crate) fn check_alive(&self, device: u32) -> Verb {
        if self.broken.contains(&device) { Err(libc::EIO) } else { Ok(()) }
    }

    pub(crate) fn check_alive_pd(&self, pd: u32) -> Verb {
        self.check_alive(self.pds.get(&pd).ok_or(libc::EINVAL)?.device)
    }

    /// Refuses features that Soft-RoCE of Linux 6.1 lacks, on a device with its personality.
    pub(crate) fn check_beyond_rxe(&self) -> Verb {
        if self.habits.is_rxe() { Err(libc::EOPNOTSUPP) } else { Ok(()) }
    }

    /// Whether the devices have XRC: all but iWARP, and not with Soft-RoCE's personality.
    pub(crate) fn has_xrc(&self) -> bool {
        self.world.link != Link::Iwarp && self.world.srd.is_none() && !self.habits.is_rxe()
    }

    /// Whether the devices support path migration: InfiniBand, but not with Soft-RoCE's
    /// personality.
    pub(crate) fn can_migrate(&self) -> bool {
        self.world.link == Link::InfiniBand && !self.habits.is_rxe()
    }

    /// The time by the clock, which is 0 until a test stops it.
    pub(crate) fn now(&self) -> Duration {
        self.clock.unwrap_or_default()
    }

    /// Whether a retry timer that will expire is running, or a message or a flush is due later.
    pub(crate) fn timers_run(&self) -> bool {
        if self.active.is_empty() {
            return self.has_late();
        }
        // Runs do not advance a clock that a test has stopped.
        let is_going = self.clock.is_none();
        let ends = |wait: Wait| is_going && wait.left.is_some() || wait.cause == Cause::Late;
        let runs = |qp: &Qp| qp.wait.is_some_and(ends) || qp.flush_from > self.faults.runs;
        self.has_late() || self.active.iter().filter_map(|qp| self.qps.get(qp)).any(runs)
    }

    pub(crate) fn has_late(&self) -> bool {
        !self.faults.late.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// After the last number they start over, and skip those that are in use.
    #[test]
    fn numbers_are_used_again() {
        let mut state = State::default();
        let first: Vec<u32> = (0..3).map(|_| state.number().unwrap()).collect();
        assert_eq!(first, [0x11, 0x12, 0x13]);
        state.pds.insert(0x12, Pd { device: 0 });
        state.pds.insert(LAST_NUMBER - 2, Pd { device: 0 });
        assert_eq!(state.number(), Ok(0x14), "not at once");
        state.numbers = LAST_NUMBER - 4;
        let next: Vec<u32> = (0..4).map(|_| state.number().unwrap()).collect();
        assert_eq!(next, [LAST_NUMBER - 3, LAST_NUMBER - 1, 0x11, 0x13]);
        state.pds.remove(&0x12);
        state.numbers = LAST_NUMBER - 1;
        assert_eq!([state.number(), state.number()], [Ok(0x11), Ok(0x12)]);
    }
}
