//! The parameters of a connection.

use super::event::PeerParam;
use super::private_data::PrivateData;
use crate::profile::{DefaultProfile, Initiator, InitiatorDepth, Profile};
use crate::sys::types::{raw::rdma_conn_param, zeroed};
use crate::terms::bounded::{MinRnrTimer, ResponderDepth, RetryCount, RnrRetry, Timeout};
use crate::terms::error::Error;

/// The parameters that one side of a connection requests (`rdma_conn_param`), for queue pairs of
/// profile `P`.
///
/// The defaults detect a dead peer: six transport retries, not C's seven, which Soft-RoCE treats as
/// "forever" ([R8.10](crate::guide::rules#r8-10), [R16.19](crate::guide::rules#r16-19)). They also
/// detect a peer that posts no receives: six RNR retries, not C's seven, which are infinite
/// ([R8.11](crate::guide::rules#r8-11)). Both apply whatever the peer requests.
///
/// ```
/// use proverbs::cm::{ConnParam, PrivateData};
/// let param: ConnParam =
///     ConnParam { private_data: PrivateData::of(b"hello"), ..Default::default() };
/// assert_eq!(param.retry_count.get(), 6);
/// ```
#[doc(alias = "rdma_conn_param")]
#[derive(Debug)]
pub struct ConnParam<P: Profile = DefaultProfile, const DATA: usize = 56> {
    /// Private data for the peer.
    pub private_data: PrivateData<DATA>,
    /// How many reads and atomics this side wants outstanding; the peer may serve fewer. A
    /// [`ReadDepth`](crate::bounded::ReadDepth), or [`NoDepth`](crate::qp::NoDepth) if the profile
    /// has no reads.
    pub initiator_depth: <P::Initiator as Initiator>::Depth,
    /// How many reads and atomics of the peer this side serves at once; 0 rejects them.
    pub responder_resources: ResponderDepth,
    /// The maximum number of transport retries of this side, whatever the peer requests.
    pub retry_count: RetryCount,
    /// The RNR retries of the peer, when this side has no receive posted
    /// ([R8.11](crate::guide::rules#r8-11)). Also the maximum number of RNR retries of this side,
    /// whatever the peer requests.
    pub rnr_retry_count: RnrRetry,
    /// How long the peer waits before each RNR retry; 82 ms by default. (C does not have this
    /// parameter: rdma_cm uses 655 ms.)
    pub min_rnr_timer: MinRnrTimer,
    /// How long to wait for an acknowledgement; `None` for rdma_cm's default, which depends on the
    /// path.
    pub ack_timeout: Option<Timeout>,
    /// Whether to negotiate vendor options of the connection ([`Ece`](crate::ext::tuning::Ece)), if
    /// both devices support them. A request offers the options of its queue pair. The answer
    /// contains the options that the other side accepted, which are then set on the queue pair that
    /// requested the connection ([R23.1](crate::guide::rules#r23-1)). If a device does not support
    /// options, or the peer sends none, the connection is made without options, as with `false`,
    /// the default. If a request with options was not sent (`NotConnected::Unsent`), the id offers
    /// these options again in its next request.
    pub ece: bool,
}

/// The parameters of the accepting side: a [`ConnParam`] with more room for private data.
pub type AcceptParam<P = DefaultProfile> = ConnParam<P, 196>;

impl<P: Profile, const DATA: usize> Default for ConnParam<P, DATA> {
    fn default() -> Self {
        ConnParam {
            private_data: PrivateData::none(),
            initiator_depth: <P::Initiator as Initiator>::Depth::LEAST,
            responder_resources: ResponderDepth::ONE,
            retry_count: RetryCount::SIX,
            rnr_retry_count: RnrRetry::SIX,
            min_rnr_timer: MinRnrTimer::MS_82,
            ack_timeout: None,
            ece: false,
        }
    }
}

impl<P: Profile, const DATA: usize> Clone for ConnParam<P, DATA> {
    fn clone(&self) -> Self {
        ConnParam { private_data: self.private_data.clone(), ..*self }
    }
}

/// The parameters that limit the transitions of the queue pair.
#[derive(Clone, Copy)]
pub(super) struct Tuning {
    pub initiator_depth: u8,
    pub responder_resources: u8,
    pub retry_count: RetryCount,
    pub rnr_retry_count: RnrRetry,
    pub min_rnr_timer: MinRnrTimer,
    pub ack_timeout: Option<Timeout>,
    pub ece: bool,
}

impl<P: Profile, const DATA: usize> ConnParam<P, DATA> {
    /// The parameters as a C struct that points into `self`.
    pub(super) fn to_c(&self, qp_num: u32, srq: bool) -> rdma_conn_param {
        rdma_conn_param {
            private_data: self.private_data.as_ptr().cast(),
            private_data_len: self.private_data.len() as u8,
            responder_resources: self.responder_resources.get(),
            initiator_depth: self.initiator_depth.to_c(),
            retry_count: self.retry_count.get(),
            rnr_retry_count: self.rnr_retry_count.to_c(),
            srq: srq.into(),
            qp_num,
            ..zeroed()
        }
    }

    pub(super) fn tuning(&self) -> Tuning {
        Tuning {
            initiator_depth: self.initiator_depth.to_c(),
            responder_resources: self.responder_resources.get(),
            retry_count: self.retry_count,
            rnr_retry_count: self.rnr_retry_count,
            min_rnr_timer: self.min_rnr_timer,
            ack_timeout: self.ack_timeout,
            ece: self.ece,
        }
    }
}

impl Tuning {
    /// Limits the parameters to what the peer supports.
    pub(super) fn within(mut self, peer: &PeerParam) -> Self {
        self.initiator_depth = self.initiator_depth.min(peer.initiator_depth);
        self.responder_resources = self.responder_resources.min(peer.responder_resources);
        self
    }
}

/// On iWARP the kernel sets the depths, and a READ with a depth of 0 would never complete
/// ([R4.6](crate::guide::rules#r4-6)).
pub(super) fn check_depth<P: Profile>(verb: &'static str, offered: u8) -> Result<(), Error> {
    let least = <P::Initiator as Initiator>::Depth::LEAST.to_c();
    if offered >= least {
        return Ok(());
    }
    let what =
        "initiator_depth (the peer serves no reads or atomics: use a profile with `NoReads`)";
    Err(Error::limit(verb, what, least.into(), offered.into()))
}

/// The depth of a queue pair: at least 1 if its profile has reads, even if the peer serves none.
/// With a depth of 0 a READ would never complete ([R4.6](crate::guide::rules#r4-6)); with 1 the
/// peer refuses it.
pub(super) fn depth_of<P: Profile>(offered: u8) -> u8 {
    offered.max(<P::Initiator as Initiator>::Depth::LEAST.to_c())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::NoReads;

    crate::profile! { Silent { initiator: NoReads } }

    /// Proves R16.17, R16.19.
    #[test]
    fn the_defaults_notice_a_dead_peer() {
        let c = ConnParam::<DefaultProfile>::default().to_c(7, false);
        assert_eq!((c.retry_count, c.rnr_retry_count), (6, 6));
        assert_eq!((c.initiator_depth, c.responder_resources, c.qp_num), (1, 1, 7));
        let c = AcceptParam::<Silent>::default().to_c(7, true);
        assert_eq!((c.initiator_depth, c.srq), (0, 1));
    }

    /// Proves R16.16.
    #[test]
    fn a_queue_pair_with_reads_has_room_for_one() {
        assert_eq!([0, 1, 4].map(depth_of::<Silent>), [0, 1, 4]);
        assert_eq!([0, 1, 4].map(depth_of::<DefaultProfile>), [1, 1, 4]);
        assert!(check_depth::<Silent>("v", 0).is_ok());
        assert!(check_depth::<DefaultProfile>("v", 1).is_ok());
        let error = check_depth::<DefaultProfile>("rdma_accept", 0).unwrap_err();
        assert!(error.to_string().contains("NoReads"), "{error}");
    }
}
