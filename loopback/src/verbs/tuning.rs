//! Event moderation, rate limits, connection options, and null regions.
//!
//! Moderated events are raised at once, as if their time had passed, and messages take no time.

use std::ptr::NonNull;

use crate::objects::memory::{Backing, Base, LOCAL_WRITE, Mr};
use crate::state::State;
use crate::words::contract::broken;
use crate::words::transport::Transport;
use crate::words::{Verb, limits};
use proverbs_sys::terms::state::QpState as Phase;
use proverbs_sys::tuning::{MODERATE, ibv_ece, ibv_modify_cq_attr, ibv_qp_rate_limit_attr};

/// The maximum number of completions per event, and the longest time, µs.
pub(crate) const MODERATION: (u16, u16) = (4096, 4095);

/// Rates of RC queue pairs, kbit/s.
pub(crate) const RATES: (u32, u32) = (1000, 100_000_000);

/// The longest burst at a limited rate, bytes.
const LONGEST_BURST: u32 = 65536;

/// A vendor number that is not assigned.
const VENDOR: u32 = 0x02_0000;

impl State {
    fn tunes(&self, device: Option<u32>) -> Verb {
        self.check_alive(device.ok_or(libc::EINVAL)?)?;
        self.check_beyond_rxe()
    }

    pub(crate) fn modify_cq(&mut self, cq: u32, attr: &ibv_modify_cq_attr) -> Verb {
        self.tunes(self.cqs.get(&cq).map(|cq| cq.device))?;
        let (count, period) = (attr.moderate.cq_count, attr.moderate.cq_period);
        if (count == 0) != (period == 0) {
            broken("event moderation needs both a count and a time (R22.1)");
        }
        if attr.attr_mask != MODERATE || count > MODERATION.0 || period > MODERATION.1 {
            return Err(libc::EINVAL);
        }
        Ok(())
    }

    pub(crate) fn limit_rate(&mut self, qp: u32, attr: &ibv_qp_rate_limit_attr) -> Verb {
        self.tunes(self.qps.get(&qp).map(|qp| qp.device))?;
        let qp = &self.qps[&qp];
        let is_legal = (attr.rate_limit == 0 || (RATES.0..=RATES.1).contains(&attr.rate_limit))
            && attr.max_burst_sz <= LONGEST_BURST;
        if qp.shape.transport != Transport::Rc {
            return Err(libc::EOPNOTSUPP);
        }
        if qp.phase != Phase::Rts || attr.comp_mask != 0 || !is_legal {
            return Err(libc::EINVAL);
        }
        Ok(())
    }

    pub(crate) fn set_ece(&mut self, qp: u32, ece: &ibv_ece) -> Verb {
        self.tunes(self.qps.get(&qp).map(|qp| qp.device))?;
        if ece.vendor_id != VENDOR || ece.comp_mask != 0 {
            return Err(libc::EINVAL);
        }
        let qp = self.qps.get_mut(&qp).ok_or(libc::EINVAL)?;
        if !matches!(qp.phase, Phase::Reset | Phase::Init) {
            broken("options of a connection cannot be set after RTR (R22.3)");
        }
        qp.options = ece.options & limits::OPTIONS;
        Ok(())
    }

    pub(crate) fn query_ece(&self, qp: u32) -> Verb<ibv_ece> {
        self.tunes(self.qps.get(&qp).map(|qp| qp.device))?;
        Ok(ibv_ece { vendor_id: VENDOR, options: self.qps[&qp].options, comp_mask: 0 })
    }

    pub(crate) fn alloc_null_mr(&mut self, pd: u32) -> Verb<(u32, u32, u32)> {
        self.check_alive_pd(pd)?;
        self.check_beyond_rxe()?;
        let (base, length, access) = (Base(NonNull::dangling()), 0, LOCAL_WRITE);
        let backing = Backing::Null;
        self.add_region(Mr::new(pd, base, length, access, backing))
    }
}
