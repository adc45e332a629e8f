//! Thread domains, parent domains, and what only one thread may use.
//!
//! A provider has no locks in them, so that calls that overlap destroy its state. Here the first
//! thread is remembered, and any call of another is told loudly, also one that would have come at
//! a good moment: this crate's types keep a lane on its thread.

use std::thread;

use crate::objects::domains::{Joint, Member, Td, check};
use crate::state::State;
use crate::words::Verb;

impl State {
    pub(crate) fn alloc_td(&mut self, device: u32) -> Verb<u32> {
        self.check_alive(device)?;
        if !self.habits.has_thread_domains() {
            return Err(libc::EOPNOTSUPP);
        }
        let number = self.number()?;
        self.tds.insert(number, Td { device, thread: thread::current().id() });
        Ok(number)
    }

    pub(crate) fn dealloc_td(&mut self, td: u32) -> Verb {
        self.destroy_fault(None)?;
        if self.joints.values().any(|joint| joint.td == td) {
            return Err(libc::EBUSY);
        }
        check(self.tds.remove(&td).ok_or(libc::EINVAL)?.thread);
        Ok(())
    }

    /// Joins a protection domain and a thread domain. Returns the result's number.
    pub(crate) fn alloc_parent_domain(&mut self, pd: u32, td: u32) -> Verb<u32> {
        self.check_alive_pd(pd)?;
        if !self.habits.has_parent_domains() {
            return Err(libc::EOPNOTSUPP);
        }
        let of = |device| self.pds.get(&pd).is_some_and(|pd| pd.device == device);
        if !self.tds.get(&td).is_some_and(|td| of(td.device)) {
            return Err(libc::EINVAL);
        }
        let number = self.number()?;
        self.joints.insert(number, Joint { pd, td });
        Ok(number)
    }

    pub(crate) fn dealloc_parent_domain(&mut self, joint: u32) -> Verb {
        self.destroy_fault(None)?;
        if self.members.values().any(|member| member.joint == Some(joint)) {
            return Err(libc::EBUSY);
        }
        self.joints.remove(&joint).map(drop).ok_or(libc::EINVAL)
    }

    /// Whether a parent domain is on this domain.
    pub(crate) fn is_joined(&self, pd: u32) -> bool {
        self.joints.values().any(|joint| joint.pd == pd)
    }

    /// Makes something on a parent domain: it is for the thread of the thread domain, as this call.
    pub(crate) fn make_in_lane<R>(
        &mut self,
        joint: u32,
        make: impl FnOnce(&mut State) -> Verb<(u32, R)>,
    ) -> Verb<(u32, R)> {
        let td = self.joints.get(&joint).and_then(|joint| self.tds.get(&joint.td));
        let thread = td.ok_or(libc::EINVAL)?.thread;
        check(thread);
        let made = make(self)?;
        self.members.insert(made.0, Member { thread, joint: Some(joint) });
        Ok(made)
    }

    /// This thread alone uses the completion queue.
    pub(crate) fn use_alone(&mut self, cq: u32) {
        self.members.insert(cq, Member { thread: thread::current().id(), joint: None });
    }

    /// Whoever calls a verb on this object must be the thread that it belongs to.
    pub(crate) fn check_thread(&self, number: u32) {
        if let Some(member) = self.members.get(&number) {
            check(member.thread);
        }
    }

    /// The end or a change of a queue pair reaches into its completion queues (`mlx5_cq_clean`).
    pub(crate) fn check_thread_of_queues(&self, qp: u32) {
        if let Some(qp) = self.qps.get(&qp) {
            self.check_thread(qp.shape.send_cq);
            self.check_thread(qp.shape.recv_cq);
        }
    }
}
