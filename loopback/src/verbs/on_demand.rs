//! On-demand paging: which operations may access such memory, and advice.
//!
//! All memory is present when it is accessed, so nothing is fetched.

use crate::objects::memory::{
    LOCAL_TAG, LOCAL_WRITE, ON_DEMAND, REMOTE_ATOMIC, REMOTE_READ, REMOTE_TAG, REMOTE_WRITE,
    number_of,
};
use crate::state::State;
use crate::words::Verb;
use crate::words::transport::Transport;
use crate::words::wr::{Op, Payload, Sge};
use proverbs_sys::memory::{FLUSH, advice};
use proverbs_sys::persist::{ACCESS_FLUSH_GLOBAL, ACCESS_FLUSH_PERSISTENT};
use proverbs_sys::terms::odp::OdpOps;

impl State {
    /// Whether a region may have this access.
    pub(crate) fn check_on_demand(&self, access: u32) -> Verb {
        if access & ON_DEMAND != 0 && self.habits.odp().is_none() {
            return Err(libc::EOPNOTSUPP);
        }
        Ok(())
    }

    /// Whether a message to this queue pair may use these rights in on-demand memory.
    pub(crate) fn pages_for(&self, qp: u32, rights: u32) -> Option<()> {
        let ops = self.ops_on_demand(qp)?;
        let needs = [
            (REMOTE_READ, OdpOps::READ),
            (REMOTE_WRITE, OdpOps::WRITE),
            (REMOTE_ATOMIC, OdpOps::ATOMIC),
            (ACCESS_FLUSH_GLOBAL | ACCESS_FLUSH_PERSISTENT, OdpOps::FLUSH),
        ];
        needs.iter().all(|(right, op)| rights & right == 0 || ops.contains(*op)).then_some(())
    }

    /// Whether this queue pair may send on-demand memory with this operation. (No other kind of
    /// post uses it.)
    pub(crate) fn sends_pages(&self, qp: u32, op: &Op, payload: &Payload) -> bool {
        let Payload::List(list) = payload else { return true };
        let mr = |sge: &Sge| self.mrs.get(&number_of(sge.lkey, LOCAL_TAG)?);
        let needs = match op {
            Op::Write(_) => OdpOps::WRITE,
            _ => OdpOps::SEND,
        };
        !list.iter().filter_map(mr).any(|mr| mr.access & ON_DEMAND != 0)
            || self.ops_on_demand(qp).is_some_and(|ops| ops.contains(needs))
    }

    /// The operations that may access on-demand memory on the transport of this queue pair.
    fn ops_on_demand(&self, qp: u32) -> Option<OdpOps> {
        let [rc, uc, ud] = self.habits.odp()?;
        Some(match self.qps.get(&qp)?.shape.transport {
            Transport::Rc => rc,
            Transport::Uc => uc,
            Transport::Ud => ud,
            Transport::XrcSend | Transport::XrcRecv | Transport::Srd => OdpOps::empty(),
        })
    }

    /// Whether an ATOMIC_WRITE to this queue pair may access the region with this key. It needs the
    /// right of a WRITE, but counts as a separate operation.
    pub(crate) fn may_write_at_once(&self, qp: u32, rkey: u32) -> bool {
        let mr = number_of(rkey, REMOTE_TAG).and_then(|number| self.mrs.get(&number));
        let is_on_demand = mr.is_some_and(|mr| mr.access & ON_DEMAND != 0);
        let has = |ops: OdpOps| ops.contains(OdpOps::ATOMIC_WRITE);
        !is_on_demand || self.ops_on_demand(qp).is_some_and(has)
    }

    /// `ibv_advise_mr`: checks the whole list, whether the advice is synchronous or not.
    pub(crate) fn advise_mr(&self, pd: u32, advice: u32, flags: u32, list: &[Sge]) -> Verb {
        self.check_alive_pd(pd)?;
        if self.habits.odp().is_none() || advice > advice::PREFETCH_NO_FAULT {
            return Err(libc::EOPNOTSUPP);
        }
        if flags & !FLUSH != 0 || list.is_empty() {
            return Err(libc::EINVAL);
        }
        for sge in list {
            let number = number_of(sge.lkey, LOCAL_TAG).ok_or(libc::EINVAL)?;
            let mr = self.mrs.get(&number).ok_or(libc::EINVAL)?;
            if mr.pd != pd || mr.access & ON_DEMAND == 0 {
                return Err(libc::EINVAL);
            }
            if advice == advice::PREFETCH_WRITE && mr.access & LOCAL_WRITE == 0 {
                return Err(libc::EPERM);
            }
            let offset = sge.addr.checked_sub(mr.iova).ok_or(libc::EFAULT)?;
            if offset.checked_add(sge.length.into()).is_none_or(|end| end > mr.length as u64) {
                return Err(libc::EFAULT);
            }
        }
        Ok(())
    }
}
