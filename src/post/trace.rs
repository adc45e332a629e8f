//! The tracing event that reports rejected posts.

#![allow(unsafe_code)] // reads a queue pair's number

use crate::memory::entry::Entry;
use crate::post::queue::{Kind, Queue};
use crate::post::refusal::{PostError, Rejected};
use crate::terms::post_error::PostErrorKind;

impl<E: Entry> PostError<E> {
    /// Reports a rejected post to `queue`. It is `None` if a list rejects a work request before it
    /// is posted.
    pub(super) fn refused<Q: Kind<Entry = E>>(
        _queue: Option<&Queue<Q>>,
        kind: PostErrorKind,
        accepted: u32,
        rejected: Rejected<E>,
    ) -> Self {
        #[cfg(feature = "tracing")]
        trace::<Q>(_queue, kind, accepted);
        PostError::new(Q::VERB, kind, accepted, rejected)
    }
}

#[cfg(feature = "tracing")]
fn trace<Q: Kind>(queue: Option<&Queue<Q>>, kind: PostErrorKind, accepted: u32) {
    // SAFETY: the queue's object is alive (its invariant).
    let qp_num = queue.and_then(|queue| unsafe { Q::qp_num(queue.object) });
    // A full queue is part of flow control. Its events would bury all others.
    if matches!(kind, PostErrorKind::QueueFull { .. } | PostErrorKind::CqFull { .. }) {
        crate::sys::event!(
            TRACE, "proverbs::post", "queue full",
            verb = Q::VERB, qp_num, accepted, reason = %kind,
        );
    } else {
        crate::sys::event!(
            DEBUG, "proverbs::post", "refused",
            verb = Q::VERB, qp_num, accepted, reason = %kind,
        );
    }
}
