//! The work requests of each verb.

use proverbs::post::SendList;
use proverbs::prelude::*;
use proverbs::qp::{NoReads, Reads};
use proverbs::transport::Transport;

use crate::Result;
use crate::connect::{Issues, Perf};

/// The maximum number of work requests in one post (-l).
pub const MAX_LIST: usize = 64;

/// The location of a work request's bytes.
pub enum Payload<'d> {
    Buf(Buf),
    Inline(&'d [u8]),
}

/// A verb on a transport, and how to build its work request.
pub trait Work<T: Transport> {
    /// `Reads` if it is a READ or an atomic.
    type Issues: Issues;

    /// Adds one work request to the list.
    fn push<'d>(
        &self,
        list: &mut SendList<'d, T, Perf<Self::Issues>, 1>,
        payload: Payload<'d>,
        signaled: bool,
    ) -> Result<()>;

    /// Posts one work request.
    fn post(
        &self,
        qp: &mut QueuePair<T, Rts, Perf<Self::Issues>>,
        payload: Payload<'_>,
        signaled: bool,
    ) -> Result<()>;
}

/// `Work` for a verb that may be inline.
macro_rules! carries {
    ($work:ident on $($transport:ident)*: $self:ident, $data:ident => $new:expr, $inline:expr) => {$(
        impl Work<$transport> for $work {
            type Issues = NoReads;

            fn push<'d>(
                &$self,
                list: &mut SendList<'d, $transport, Perf<NoReads>, 1>,
                payload: Payload<'d>,
                signaled: bool,
            ) -> Result<()> {
                match payload {
                    Payload::Buf($data) if signaled => list.push($new.signaled())?,
                    Payload::Buf($data) => list.push($new)?,
                    Payload::Inline($data) if signaled => list.push($inline.signaled())?,
                    Payload::Inline($data) => list.push($inline)?,
                }
                Ok(())
            }

            fn post(
                &$self,
                qp: &mut QueuePair<$transport, Rts, Perf<NoReads>>,
                payload: Payload<'_>,
                signaled: bool,
            ) -> Result<()> {
                match payload {
                    Payload::Buf($data) if signaled => qp.post_send($new)?,
                    Payload::Inline($data) if signaled => qp.post_send($inline)?,
                    // A later one is signaled, and releases this one.
                    Payload::Buf($data) => drop(qp.post_send_unsignaled($new)?),
                    Payload::Inline($data) => drop(qp.post_send_unsignaled($inline)?),
                }
                Ok(())
            }
        }
    )*};
}

/// `Work` for a verb whose data comes from the peer.
macro_rules! fetches {
    ($work:ident: $self:ident, $data:ident => $new:expr) => {
        impl Work<Rc> for $work {
            type Issues = Reads;

            fn push<'d>(
                &$self,
                list: &mut SendList<'d, Rc, Perf<Reads>, 1>,
                payload: Payload<'d>,
                signaled: bool,
            ) -> Result<()> {
                match payload {
                    Payload::Buf($data) if signaled => list.push($new.signaled())?,
                    Payload::Buf($data) => list.push($new)?,
                    Payload::Inline(_) => return Err(NOT_INLINE.into()),
                }
                Ok(())
            }

            fn post(
                &$self,
                qp: &mut QueuePair<Rc, Rts, Perf<Reads>>,
                payload: Payload<'_>,
                signaled: bool,
            ) -> Result<()> {
                match payload {
                    Payload::Buf($data) if signaled => qp.post_send($new)?,
                    Payload::Buf($data) => drop(qp.post_send_unsignaled($new)?),
                    Payload::Inline(_) => return Err(NOT_INLINE.into()),
                }
                Ok(())
            }
        }
    };
}

pub const NOT_INLINE: &str =
    "the data of a READ or an atomic comes from the peer: leave -I out (R2.6)";

pub struct Sends;
pub struct Datagrams(pub wr::Destination);
pub struct Writes(pub RemoteSlice<RemoteAll>);
pub struct ReadsOf(pub RemoteSlice<RemoteAll>);
pub struct Adds(pub RemoteCell);
pub struct Swaps(pub RemoteCell);

carries!(Sends on Rc Uc: self, data => wr::Send::new(data), wr::Send::inline_slice(data));
carries!(Datagrams on Ud: self, data =>
    wr::Send::new(data).to(self.0), wr::Send::inline_slice(data).to(self.0));
carries!(Writes on Rc Uc: self, data =>
    wr::RdmaWrite::new(data, self.0.write()), wr::RdmaWrite::inline_slice(data, self.0.write()));
fetches!(ReadsOf: self, data => {
    let from = self.0.slice(0, data.len() as u64)?;
    wr::RdmaRead::new(data, from.read())
});
fetches!(Adds: self, data => wr::FetchAndAdd::new(data, self.0, 1));
fetches!(Swaps: self, data => wr::CmpAndSwp::new(data, self.0, wr::CompareSwap { compare: 0, swap: 0 }));
