//! How long a message may be: what the port says on the way to RTS.

use super::Core;
use crate::context::Context;
use crate::error::Error;
use crate::limits::Limit;
use crate::profile::Profile;
use crate::state::QpState;
use crate::transport::Transport;

const VERB: &str = "ibv_modify_qp";

impl<P: Profile> Core<P> {
    /// The longest message after a transition, if it may change by it: the port's `max_msg_sz` (R3.5), on UD
    /// its active MTU (R3.6). An inline payload of any size that the profile has must fit.
    pub(super) fn message_limit<T: Transport>(
        &self,
        way: (QpState, QpState),
        port: u8,
    ) -> Result<Option<u32>, Error> {
        let is_set = way == (QpState::Reset, QpState::Init);
        let is_moved = way == (QpState::Sqd, QpState::Sqd) && port != self.port;
        if !is_set && !is_moved && way != (QpState::Rtr, QpState::Rts) {
            return Ok(None);
        }
        let longest = match self.ask_port::<T>(port) {
            // The transition itself says what is wrong with the port.
            Err(_) if is_set => return Ok(None),
            answer => answer?,
        };
        within("max_inline_data, as a message,", P::MaxInline::VALUE, longest)?;
        if is_moved {
            // Buffers were measured by the old limit.
            let (before, _) = self.books.longest_message();
            within("the longest message of the port before", before, longest)?;
        }
        // Nothing is sent before RTS, so that every buffer is measured by the limit of then.
        Ok((!is_set).then_some(longest))
    }

    /// The transition was made: from now on messages are held to `limit`.
    pub(super) fn limit_messages<T: Transport>(&self, limit: Option<u32>) {
        if let Some(limit) = limit {
            self.books.limit_messages(limit, T::DATAGRAM, P::MaxSendSge::VALUE);
        }
    }

    /// The longest message that the port takes, bytes; any if it does not say.
    fn ask_port<T: Transport>(&self, port: u8) -> Result<u32, Error> {
        let context = Context { handle: self.handle.parents().pd.parents().clone() };
        let attr = context.query_port(port)?;
        let longest = match T::DATAGRAM {
            true => attr.active_mtu.map(|mtu| mtu.bytes()),
            false => Some(attr.max_msg_sz).filter(|&longest| longest != 0),
        };
        Ok(longest.unwrap_or(u32::MAX))
    }
}

/// An error unless a message of `asked` bytes may be posted where `longest` is the limit.
fn within(what: &'static str, asked: u32, longest: u32) -> Result<(), Error> {
    if asked <= longest {
        return Ok(());
    }
    Err(Error::limit(VERB, what, asked.into(), longest.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_inline_capacity_fits_a_message() {
        assert!(within("max_inline_data, as a message,", 512, 512).is_ok());
        let error = within("max_inline_data, as a message,", 512, 256).unwrap_err();
        let text = "ibv_modify_qp: max_inline_data, as a message, 512 exceeds 256";
        assert_eq!(error.to_string(), text);
    }
}
