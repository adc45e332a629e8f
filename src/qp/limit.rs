//! Checks of a transition that depend on its ports: the longest message, and an alternate path.

use crate::device::{Context, DeviceCap, Protocol};
use crate::profile::Profile;
use crate::qp::Core;
use crate::sys::attr::qp::AlternatePath;
use crate::sys::refusal::refusal;
use crate::sys::types::ibv_qp_attr_mask as Mask;
use crate::terms::error::Error;
use crate::terms::state::QpState;
use crate::terms::transport::Transport;
use crate::work::limits::Limit;

const VERB: &str = "ibv_modify_qp";

impl<P: Profile> Core<P> {
    /// The longest message after a transition, if the transition may change it: the port's
    /// `max_msg_sz` (R3.5), or on UD its active MTU (R3.6). The profile's inline capacity must not
    /// exceed it.
    pub(crate) fn message_limit<T: Transport>(
        &mut self,
        way: (QpState, QpState),
        port: u8,
    ) -> Result<Option<u32>, Error> {
        let is_set = way == (QpState::Reset, QpState::Init);
        let is_moved = way == (QpState::Sqd, QpState::Sqd) && port != self.port;
        if !is_set && !is_moved && way != (QpState::Rtr, QpState::Rts) {
            return Ok(None);
        }
        let longest = match self.longest {
            // The port reported it for the transition to INIT.
            Some((of, longest)) if of == port => longest,
            _ => match longest_message::<T>(&self.context(), port) {
                // The transition itself reports the problem with the port.
                Err(_) if is_set => return Ok(None),
                answer => answer?,
            },
        };
        // The limit of UD may change.
        self.longest = (!T::DATAGRAM).then_some((port, longest));
        Error::at_most(VERB, "the longest inline message", P::MaxInline::VALUE, longest)?;
        if is_moved {
            // Queued work requests were checked against the old limit.
            let (before, _) = self.counters.longest_message();
            Error::at_most(VERB, "the longest message of the previous port", before, longest)?;
        }
        // Nothing is sent before RTS, so every buffer is checked against the limit at that time.
        Ok((!is_set).then_some(longest))
    }

    /// Rejects an alternate path that the port's protocol or the device does not support. `port` is
    /// the port of the primary path.
    pub(super) fn check_migrates<T: Transport>(
        &self,
        alternate: Option<&AlternatePath>,
        port: u8,
    ) -> Result<(), Error> {
        let context = self.context();
        let refused = |lacks: &str| {
            let asked = match alternate {
                Some(alternate) => format!("an alternate path via {}", alternate.address),
                None => "a migration of the path".to_owned(),
            };
            let instead = "connect a second queue pair over the other path";
            refusal(&context.handle, VERB, asked, lacks, instead)
        };
        for port in [Some(port), alternate.map(|it| it.address.port)].into_iter().flatten() {
            let protocol = context.protocol(port)?;
            if protocol != Protocol::InfiniBand {
                return Err(refused(&format!("speaks {protocol}, which has no alternate paths")));
            }
        }
        let can = DeviceCap::from_bits_retain(context.limits()?.device_cap_flags);
        if !can.contains(DeviceCap::AUTO_PATH_MIG) {
            return Err(refused("has no AUTO_PATH_MIG"));
        }
        let Some(AlternatePath { address, .. }) = alternate else { return Ok(()) };
        context.check_path_bits(address, VERB, address.port)?;
        // Posted messages may use either path.
        let first = longest_message::<T>(&context, port)?;
        let second = longest_message::<T>(&context, address.port)?;
        Error::at_most(VERB, "the longest message of the first path's port", first, second)
    }

    /// The port, which a migration may have changed.
    pub(super) fn find_port(&self) -> Result<u8, Error> {
        if !self.may_migrate {
            return Ok(self.port);
        }
        self.ask(Mask::IBV_QP_PORT.0).map(|c| c.port_num)
    }

    /// Records a completed transition. From now on `limit` bounds messages.
    pub(crate) fn limit_messages<T: Transport>(&mut self, limit: Option<u32>) {
        if let Some(limit) = limit {
            self.counters.limit_messages(limit, T::DATAGRAM, P::MaxSendSge::VALUE);
            self.send.look_anew();
        }
    }
}

/// The longest message that the port accepts, in bytes; no limit if it does not report one.
pub(super) fn longest_message<T: Transport>(context: &Context, port: u8) -> Result<u32, Error> {
    let longest = match T::DATAGRAM {
        // It may have changed since it was queried for another queue pair.
        true => context.query_port(port)?.active_mtu.map_or(0, |mtu| mtu.bytes()),
        false => context.port_limits(port)?.max_msg_sz,
    };
    Ok(if longest == 0 { u32::MAX } else { longest })
}

#[cfg(all(test, feature = "loopback"))]
mod tests {
    use super::*;
    use crate::provider_tests::device_with;

    /// Proves R3.6.
    #[test]
    fn an_inline_capacity_fits_a_message() {
        assert!(Error::at_most(VERB, "the longest inline message", 512u32, 512u32).is_ok());
        let error = Error::at_most(VERB, "the longest inline message", 512u32, 256u32).unwrap_err();
        let text = "ibv_modify_qp: the longest inline message 512 exceeds 256";
        assert_eq!(error.to_string(), text);
    }

    /// Buffers were checked against the limit of the previous port, so the new port's limit must
    /// not be lower.
    #[cfg(feature = "loopback")]
    #[test]
    #[allow(unsafe_code)] // forwards two verbs
    fn a_queue_pair_that_moves_to_another_port() {
        use crate::loopback::{Fabric, LOOPBACK};
        use crate::prelude::*;
        use crate::qp::{Drain, RcSqd};
        use crate::sys::control::Control;

        /// The limits, by port.
        const LONGEST: [u32; 4] = [0, 4096, 4095, 5000];
        let three_ports = Control {
            query_port: |context, port| {
                // SAFETY: the arguments come from the caller, except for the port, which exists.
                let mut attr = unsafe { (LOOPBACK.query_port)(context, 1) }?;
                attr.get_mut().max_msg_sz = LONGEST[usize::from(port)];
                Ok(attr)
            },
            modify_qp: |qp, attr, mask| {
                // SAFETY: the attributes come from the caller.
                if unsafe { (*attr).port_num } > 1 {
                    return Ok(());
                }
                // SAFETY: the arguments come from the caller, which keeps the verb's contract.
                unsafe { (LOOPBACK.modify_qp)(qp, attr, mask) }
            },
            ..LOOPBACK
        };
        let context = device_with(Fabric::new(), three_ports);
        let pd = context.alloc_pd().unwrap();
        let cq = context.create_cq(20).unwrap();
        let qp = pd.create_qp::<Rc, DefaultProfile>(&cq, &cq, Depth { send: 4, recv: 4 }).unwrap();
        let init = ConnectedInit { pkey_index: 0, port: 1, access: QpAccess::empty() };
        let (own, psn) = (Qpn::new(qp.qp_num()).unwrap(), Psn::new(0).unwrap());
        let address = AddressVector::roce(1, context.query_gid(1, 1).unwrap(), 1);
        let qp = qp.modify(init).unwrap().modify(RcRtr::new(address, own, psn)).unwrap();
        let qp = qp.modify(RcRts::new(psn, ReadDepth::ONE)).unwrap();
        assert_eq!(qp.core.counters.longest_message(), (4096, false));
        let qp = qp.modify(Drain { notify: false }).unwrap().into_sqd().unwrap();
        let moved = RcSqd { port: Some(2), ..RcSqd::default() };
        let refused = qp.modify(moved).unwrap_err();
        let text = "ibv_modify_qp: the longest message of the previous port 4096 exceeds 4095";
        assert_eq!(refused.error.to_string(), text);
        let qp = refused.into_object();
        assert_eq!((qp.core.port, qp.core.counters.longest_message()), (1, (4096, false)));
        let moved = RcSqd { port: Some(3), ..RcSqd::default() };
        let qp = qp.modify(moved).unwrap().into_sqd().unwrap();
        assert_eq!((qp.core.port, qp.core.counters.longest_message()), (3, (5000, false)));
        let qp = qp.modify(RcSqd::default()).unwrap();
        assert_eq!((qp.core.port, qp.core.counters.longest_message()), (3, (5000, false)));
    }
}
