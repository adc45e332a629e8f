//! Thread domains, parent domains, and objects that only one thread may use.
//!
//! A provider has no locks for these objects, so overlapping calls corrupt its state. The device
//! remembers the first thread and reports any call from another one, even a call that would not
//! have overlapped. The crate's types keep a lane on its thread.

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

    /// Whether this domain has a parent domain.
    pub(crate) fn is_joined(&self, pd: u32) -> bool {
        self.joints.values().any(|joint| joint.pd == pd)
    }

    /// Creates an object on a parent domain. It belongs to the thread of the thread domain, which
    /// this call must be on.
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

    /// Restricts the completion queue to this thread.
    pub(crate) fn use_alone(&mut self, cq: u32) {
        self.members.insert(cq, Member { thread: thread::current().id(), joint: None });
    }

    /// Reports a call on this object from a thread other than its own.
    pub(crate) fn check_thread(&self, number: u32) {
        if let Some(member) = self.members.get(&number) {
            check(member.thread);
        }
    }

    /// Destroying or changing a queue pair accesses its completion queues (`mlx5_cq_clean`).
    pub(crate) fn check_thread_of_queues(&self, qp: u32) {
        if let Some(qp) = self.qps.get(&qp) {
            self.check_thread(qp.shape.send_cq);
            self.check_thread(qp.shape.recv_cq);
        }
    }
}
