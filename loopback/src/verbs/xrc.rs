//! XRC: domains, and the state of a target while it serves a message.

use crate::objects::domains::{OfXrc, Xrcd};
use crate::objects::qp::{Qp, Shape};
use crate::state::State;
use crate::words::Verb;

impl State {
    /// Returns the domain's number. If the file's domain is already open, it is that one.
    pub(crate) fn open_xrcd(
        &mut self,
        device: u32,
        inode: Option<(u64, u64)>,
        (creates, alone): (bool, bool),
    ) -> Verb<u32> {
        self.check_alive(device)?;
        if !self.has_xrc() {
            return Err(libc::EOPNOTSUPP);
        }
        let is_here = |xrcd: &Xrcd| xrcd.device == device && xrcd.inode == inode;
        let known = self.xrcds.iter_mut().find(|(_, xrcd)| inode.is_some() && is_here(xrcd));
        if let Some((number, xrcd)) = known {
            if creates && alone {
                return Err(libc::EINVAL);
            }
            xrcd.opens += 1;
            return Ok(*number);
        }
        if !creates {
            return Err(if inode.is_some() { libc::EAGAIN } else { libc::EINVAL });
        }
        let number = self.number()?;
        self.xrcds.insert(number, Xrcd { device, inode, opens: 1 });
        Ok(number)
    }

    /// A domain that others have open stays. It must be empty when the last one closes it. This
    /// counts all opens on a fabric; kernels count for each process.
    pub(crate) fn close_xrcd(&mut self, number: u32) -> Verb {
        self.destroy_fault(None)?;
        let xrcd = self.xrcds.get_mut(&number).ok_or(libc::EINVAL)?;
        if xrcd.opens > 1 {
            xrcd.opens -= 1;
            return Ok(());
        }
        let used = self.qps.values().any(|qp| qp.xrcd == Some(number))
            || self.srqs.values().any(|srq| srq.of_xrc.is_some_and(|of| of.xrcd == number));
        if used {
            return Err(libc::EBUSY);
        }
        self.xrcds.remove(&number);
        Ok(())
    }

    /// Checks the objects of an XRC shared receive queue.
    pub(crate) fn check_xrc_srq(&self, pd: u32, of: OfXrc) -> Verb {
        let device = self.pds.get(&pd).ok_or(libc::EINVAL)?.device;
        let fits = self.xrcds.get(&of.xrcd).is_some_and(|xrcd| xrcd.device == device)
            && self.cqs.get(&of.cq).is_some_and(|cq| cq.device == device);
        if fits { Ok(()) } else { Err(libc::EINVAL) }
    }

    /// Creates a target. Returns its number.
    pub(crate) fn create_target(&mut self, xrcd: u32) -> Verb<u32> {
        let device = self.xrcds.get(&xrcd).ok_or(libc::EINVAL)?.device;
        self.check_alive(device)?;
        let shape = Shape::of_target();
        let number = self.number()?;
        self.qps.insert(number, Qp::new(device, 0, Some(xrcd), shape));
        Ok(number)
    }

    /// Whether the message to a target names no shared receive queue of its domain (R26.4).
    pub(crate) fn is_astray(&self, to: u32, srqn: Option<u32>) -> bool {
        let Some(xrcd) = self.qps.get(&to).and_then(|qp| qp.xrcd) else { return false };
        let named = srqn.and_then(|srqn| self.srqs.get(&srqn)).and_then(|srq| srq.of_xrc);
        named.is_none_or(|of| of.xrcd != xrcd)
    }

    /// Serves a message, which is not astray, in the role of its destination queue pair. During
    /// that, a target has the message's shared receive queue, with its completion queue and
    /// protection domain.
    pub(crate) fn serve_as<R>(
        &mut self,
        to: u32,
        srqn: Option<u32>,
        serve: impl FnOnce(&mut State) -> R,
    ) -> R {
        let is_target = self.qps.get(&to).is_some_and(|qp| qp.xrcd.is_some());
        let named = srqn.filter(|_| is_target);
        let named = named.and_then(|srqn| Some((srqn, self.srqs.get(&srqn)?)));
        let named = named.and_then(|(srqn, srq)| Some((srqn, srq.pd, srq.of_xrc?.cq)));
        let Some((srqn, pd, cq)) = named else { return serve(self) };
        self.lend(to, pd, Some(srqn), cq);
        let reply = serve(self);
        self.lend(to, 0, None, 0);
        reply
    }

    fn lend(&mut self, target: u32, pd: u32, srq: Option<u32>, cq: u32) {
        if let Some(qp) = self.qps.get_mut(&target) {
            qp.pd = pd;
            (qp.shape.srq, qp.shape.recv_cq) = (srq, cq);
        }
    }
}
