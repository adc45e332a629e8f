//! Errors of the control path, in verbs terms.

use std::ffi::c_int;
use std::fmt;

use crate::terms::absence::Absence;
use crate::terms::bounded::OutOfRange;
use crate::terms::gid::{Gid, GidKind};
pub use crate::terms::refused::Refused;

/// A control path verb failed; nothing changed.
///
/// Its text names the verb, the requested value and the possible values. `errno` is the value that
/// ibv_create_qp(3) and similar functions return.
///
/// ```
/// # use proverbs::prelude::*;
/// # let proverbs::loopback::Pair { context, .. } = proverbs::loopback::pair()?;
/// let error: proverbs::Error = context.create_cq::<Buf>(u32::MAX).unwrap_err();
/// assert_eq!(error.to_string(), "ibv_create_cq: cqe 4294967295 exceeds 1048576");
/// assert_eq!(error.verb(), "ibv_create_cq");
/// assert!(matches!(error.kind(), ErrorKind::Limit { max: 1048576, .. }));
/// assert_eq!(error.errno(), None); // it was not the system that refused
///
/// let error = context.query_port(9).unwrap_err();
/// assert_eq!(error.errno(), Some(22)); // EINVAL
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Error(Box<Inner>);

/// Behind a pointer, so that the results of hot functions stay in registers.
struct Inner {
    verb: &'static str,
    kind: ErrorKind,
}

/// The reason for a failure. ibv_create_qp(3) and similar functions report it only as an errno.
///
/// See [`Error`] for an example:
/// `matches!(error.kind(), ErrorKind::Limit { .. })`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A number exceeds the limit of the device or the object.
    Limit {
        /// The attribute, in verbs terms.
        what: &'static str,
        /// The requested value.
        asked: u64,
        /// The largest possible value.
        max: u64,
    },
    /// A number does not fit its attribute.
    OutOfRange(OutOfRange),
    /// The objects belong to different protection domains ([R5.2],
    /// [R6.8], [R7.4]).
    ///
    /// [R5.2]: https://docs.rs/proverbs/latest/proverbs/guide/rules/index.html#r5-2
    /// [R6.8]: https://docs.rs/proverbs/latest/proverbs/guide/rules/index.html#r6-8
    /// [R7.4]: https://docs.rs/proverbs/latest/proverbs/guide/rules/index.html#r7-4
    PdMismatch {
        /// The two objects.
        what: &'static str,
    },
    /// The objects belong to different contexts. The numbers of one context mean nothing in the
    /// other ([R12.1]).
    ///
    /// [R12.1]: https://docs.rs/proverbs/latest/proverbs/guide/rules/index.html#r12-1
    ContextMismatch {
        /// The two objects.
        what: &'static str,
    },
    /// The completion queue has too few free entries for the queues that complete there ([R9.9]).
    /// Create it with `enough` entries, or resize it. If a queue pair was destroyed with work
    /// outstanding, poll the completion queue: that frees the entries of the queue pair.
    ///
    /// [R9.9]: https://docs.rs/proverbs/latest/proverbs/guide/rules/index.html#r9-9
    CqTooSmall {
        /// The entries that the queues need: sends and receives together, if both complete there.
        asked: u32,
        /// The entries that no queue has booked.
        free: u32,
        /// The smallest sufficient capacity, including all bookings.
        enough: u32,
    },
    /// The completion queue is large enough for the queues that are to complete there, but other
    /// queues use its entries now ([R9.9]): its queue pairs share the entries
    /// (`CqBuilder::shared_budget`). Poll `asked - free` of their completions first.
    ///
    /// [R9.9]: https://docs.rs/proverbs/latest/proverbs/guide/rules/index.html#r9-9
    CqFull {
        /// The entries that the queues reserve.
        asked: u32,
        /// The entries that are free.
        free: u32,
    },
    /// The completion queue was dropped, or is in error ([R10.12]): it is not polled any more.
    ///
    /// [R10.12]: https://docs.rs/proverbs/latest/proverbs/guide/rules/index.html#r10-12
    CqGone,
    /// A completion queue cannot become smaller than the bookings of its queues ([R9.9]).
    ///
    /// [R9.9]: https://docs.rs/proverbs/latest/proverbs/guide/rules/index.html#r9-9
    Booked {
        /// The requested capacity.
        asked: u32,
        /// The booked entries.
        booked: u32,
    },
    /// Packets from one GID do not reach the other ([R18.22], [R18.23]). Choose another GID with
    /// `Context::gid_table` or `roce_v2_gid`, on either side.
    ///
    /// [R18.22]: https://docs.rs/proverbs/latest/proverbs/guide/rules/index.html#r18-22
    /// [R18.23]: https://docs.rs/proverbs/latest/proverbs/guide/rules/index.html#r18-23
    Unreachable {
        /// This side's GID.
        from: (Gid, GidKind),
        /// The peer's GID.
        to: (Gid, GidKind),
        /// The reason.
        why: &'static str,
    },
    /// No device, GID or other object has this name or index.
    NotFound(String),
    /// The device returned something that the manual does not allow.
    Protocol(&'static str),
    /// The peer rejected the connection request.
    Rejected {
        /// The reason in the connection manager's REJ message, numbered as in the InfiniBand
        /// specification: 28 if the peer's program rejected the request, 8 if no program listens.
        /// On iWARP a negative errno.
        reason: i32,
        /// The private data that the peer's program sent with it, perhaps padded with zeroes.
        private_data: Vec<u8>,
    },
    /// An event of the connection manager reports that the step failed.
    Cm {
        /// The event's name in the manual.
        event: &'static str,
        /// Its status: a negative errno, or a code of the connection manager.
        status: i32,
    },
    /// There was no result within the time limit.
    TimedOut {
        /// The time limit.
        after: std::time::Duration,
    },
    /// The process may not lock or pin this much memory (ENOMEM, `RLIMIT_MEMLOCK`). Raise the
    /// limit: `ulimit -l`, /etc/security/limits.conf, or `LimitMEMLOCK=` of systemd. A process with
    /// CAP_IPC_LOCK has no limit.
    LockedMemory {
        /// The requested number of bytes.
        asked: u64,
        /// The number of bytes that are already locked or pinned.
        locked: u64,
        /// The limit in bytes.
        limit: u64,
    },
    /// There are too few huge pages (ENOMEM). Reserve some with `vm.nr_hugepages` of sysctl(8), or
    /// `hugepagesz=1G hugepages=N` on the kernel's command line.
    HugePages {
        /// The requested number of pages.
        asked: u64,
        /// The size of a page in bytes.
        page: u64,
        /// The number of pages of this size that are free and not reserved.
        free: u64,
        /// The NUMA node for the pages.
        node: Option<u32>,
    },
    /// The device, its driver or the library lacks the verb (EOPNOTSUPP).
    Unsupported {
        /// The request, in verbs terms.
        asked: String,
        /// The device, driver or library that lacks it.
        lacks: String,
        /// An alternative.
        instead: &'static str,
    },
    /// This process cannot use an RDMA device.
    Absent(Absence),
    /// Any other failure: the errno, and the request.
    Os {
        /// The errno.
        errno: i32,
        /// The request, in verbs terms (may be empty).
        asked: String,
    },
}

impl Error {
    #[doc(hidden)]
    pub fn new(verb: &'static str, kind: ErrorKind) -> Self {
        let error = Error(Box::new(Inner { verb, kind }));
        event!(
            DEBUG, "proverbs::error", "refused",
            verb, errno = error.errno(), error = %error,
        );
        error
    }

    #[doc(hidden)]
    pub fn os(verb: &'static str, errno: c_int, asked: impl Into<String>) -> Self {
        Error::new(verb, ErrorKind::Os { errno, asked: asked.into() })
    }

    #[doc(hidden)]
    pub fn limit(verb: &'static str, what: &'static str, asked: u64, max: u64) -> Self {
        Error::new(verb, ErrorKind::Limit { what, asked, max })
    }

    /// An error if a value exceeds its limit.
    #[doc(hidden)]
    pub fn at_most(
        verb: &'static str,
        what: &'static str,
        asked: impl Into<u64>,
        max: impl Into<u64>,
    ) -> Result<(), Self> {
        let (asked, max) = (asked.into(), max.into());
        if asked > max { Err(Error::limit(verb, what, asked, max)) } else { Ok(()) }
    }

    /// An error if two objects belong to different protection domains. `what` names both.
    #[doc(hidden)]
    pub fn unless_one_pd(verb: &'static str, what: &'static str, is_one: bool) -> Result<(), Self> {
        if is_one { Ok(()) } else { Err(Error::new(verb, ErrorKind::PdMismatch { what })) }
    }

    /// An error if two objects belong to different contexts. `what` names both.
    #[doc(hidden)]
    pub fn unless_one_context(
        verb: &'static str,
        what: &'static str,
        is_one: bool,
    ) -> Result<(), Self> {
        if is_one { Ok(()) } else { Err(Error::new(verb, ErrorKind::ContextMismatch { what })) }
    }

    /// The verb, by its C name.
    pub fn verb(&self) -> &'static str {
        self.0.verb
    }

    /// The reason.
    pub fn kind(&self) -> &ErrorKind {
        &self.0.kind
    }

    /// The errno, if the device or the system reported the failure.
    pub fn errno(&self) -> Option<i32> {
        match &self.0.kind {
            ErrorKind::Os { errno, .. } => Some(*errno),
            ErrorKind::LockedMemory { .. } | ErrorKind::HugePages { .. } => Some(libc::ENOMEM),
            ErrorKind::Unsupported { .. } => Some(libc::EOPNOTSUPP),
            ErrorKind::Absent(absence) => Some(absence.errno()),
            _ => None,
        }
    }
}

/// The name and the meaning of an errno, such as "EINVAL: Invalid argument".
pub struct Errno(pub c_int);

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        macro_rules! name {
            ($($name:ident)*) => {
                match self.0 {
                    $(libc::$name => stringify!($name),)*
                    _ => "",
                }
            };
        }
        let name = name! {
            EPERM ENOENT EINTR EIO ENXIO EBADF EAGAIN ENOMEM EACCES EFAULT EBUSY EEXIST ENODEV
            ENOTDIR EISDIR EINVAL ENFILE EMFILE ENOTTY EFBIG ENOSPC ENOSYS ENODATA EPROTO EOVERFLOW
            EPROTONOSUPPORT EOPNOTSUPP EAFNOSUPPORT ETIMEDOUT EADDRINUSE EADDRNOTAVAIL ECONNREFUSED
            ECONNRESET EHOSTUNREACH ENETUNREACH EISCONN ENOTCONN
        };
        // The system's text without the number that std appends, since the name replaces it.
        let text = std::io::Error::from_raw_os_error(self.0).to_string();
        let words = text.split(" (os error").next().unwrap_or(&text);
        match name {
            "" => write!(f, "errno {}: {words}", self.0),
            name => write!(f, "{name}: {words}"),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.0.verb)?;
        match &self.0.kind {
            ErrorKind::Limit { what, asked, max } => write!(f, "{what} {asked} exceeds {max}"),
            ErrorKind::OutOfRange(which) => which.fmt(f),
            ErrorKind::PdMismatch { what } => {
                write!(f, "{what} belong to different protection domains")
            }
            ErrorKind::ContextMismatch { what } => {
                write!(f, "{what} belong to different contexts: create both from one")
            }
            ErrorKind::CqTooSmall { asked, free, enough } => write!(
                f,
                "the completion queue has room for {free} of the {asked} entries these queues need: \
                 create it with at least {enough}"
            ),
            ErrorKind::CqFull { asked, free } => write!(
                f,
                "the completion queue has room for {free} of the {asked} entries these queues need \
                 now: poll {} completions first",
                asked.saturating_sub(*free)
            ),
            ErrorKind::CqGone => f.write_str("the completion queue was dropped, or is in error"),
            ErrorKind::Booked { asked, booked } => write!(
                f,
                "cqe {asked} is less than the {booked} entries that queues have booked (destroy \
                 queue pairs, then poll: that frees their entries)"
            ),
            ErrorKind::Unreachable { from, to, why } => {
                let ((from, kind), (to, its_kind)) = (from, to);
                write!(f, "{to} ({its_kind}) cannot be reached from {from} ({kind}): {why}")
            }
            ErrorKind::NotFound(what) => f.write_str(what),
            ErrorKind::Protocol(what) => f.write_str(what),
            ErrorKind::Rejected { reason, private_data } => {
                let bytes = private_data.len();
                if *reason < 0 {
                    let why = Errno(reason.saturating_neg());
                    return write!(f, "rejected ({why}), {bytes} bytes of private data");
                }
                let why = rej_reason(*reason);
                write!(f, "rejected with reason {reason} ({why}), {bytes} bytes of private data")
            }
            ErrorKind::Cm { event, status } if *status < 0 => {
                write!(f, "{event}: {}", Errno(-status))
            }
            ErrorKind::Cm { event, status } => write!(f, "{event}, status {status}"),
            ErrorKind::TimedOut { after } if self.0.verb == "rdma_connect" => {
                write!(
                    f,
                    "no answer within {after:?}: the peer must `accept` or `reject` the request"
                )
            }
            ErrorKind::TimedOut { after } => write!(f, "no result within {after:?}"),
            ErrorKind::LockedMemory { asked, locked, limit } => write!(
                f,
                "{} ({asked} bytes, {locked} bytes are locked already, and the limit is {limit}: \
                 raise RLIMIT_MEMLOCK by `ulimit -l`, /etc/security/limits.conf, or \
                 `LimitMEMLOCK=` of systemd)",
                Errno(libc::ENOMEM)
            ),
            ErrorKind::HugePages { asked, page, free, node } => {
                let place = node.map_or(String::new(), |node| format!(" on node {node}"));
                write!(
                    f,
                    "{} ({asked} pages of {page} bytes, and {free} are free{place}: reserve some by `sysctl vm.nr_hugepages`, \
                     or `hugepagesz=1G hugepages=N` of the kernel's command line)",
                    Errno(libc::ENOMEM)
                )
            }
            ErrorKind::Unsupported { asked, lacks, instead } => {
                write!(f, "{} ({asked}; {lacks}: {instead})", Errno(libc::EOPNOTSUPP))
            }
            ErrorKind::Absent(absence) => absence.fmt(f),
            ErrorKind::Os { errno, asked } if asked.is_empty() => Errno(*errno).fmt(f),
            ErrorKind::Os { errno, asked } => write!(f, "{} ({asked})", Errno(*errno)),
        }
    }
}

/// The meaning of the reason in a REJ message (InfiniBand Architecture Specification, volume 1, the
/// table of rejection reasons in the chapter on communication management).
fn rej_reason(reason: i32) -> &'static str {
    match reason {
        1 => "the peer has no queue pair left",
        2 => "the peer has no end-to-end context left",
        3 => "the peer lacks resources",
        4 => "a message of the handshake was late: try again",
        5 => "the peer does not support the request",
        6 => "the peer has no connection with this communication ID",
        7 => "the peer has no instance of this communication ID",
        8 => "no program listens there",
        9 => "the peer's service has another transport",
        10 => "stale connection: the peer still has one with this queue pair number, try again",
        11 => "the peer has no such reliable datagram channel",
        12 | 18 => "the peer does not accept this GID",
        13 | 19 => "the peer does not accept this LID",
        14 | 20 => "the peer does not accept this service level",
        15 | 21 => "the peer does not accept this traffic class",
        16 | 22 => "the peer does not accept this hop limit",
        17 | 23 => "the peer does not accept this packet rate",
        24 => "ask the connection manager and the port that the private data names",
        25 => "ask for the port that the private data names",
        26 => "the peer does not accept this path MTU",
        27 => "the peer serves fewer reads and atomics at once",
        28 => "the peer's program rejected the request",
        29 => "the peer does not accept this RNR retry count",
        30 => "two requests have the same communication ID",
        31 => "the peer uses another version",
        32 | 33 => "the peer does not accept this flow label",
        35 => "the peer does not support a vendor option",
        _ => "see the REJ reasons of the InfiniBand connection manager",
    }
}

/// Like `Display`, because `main` and `unwrap` print this.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Error {}

impl From<OutOfRange> for Error {
    fn from(e: OutOfRange) -> Self {
        Error::new("attribute", ErrorKind::OutOfRange(e))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_name_the_verb_the_errno_and_the_request() {
        let e = Error::limit("ibv_create_qp", "max_send_wr", 1048577, 1048576);
        assert_eq!(e.to_string(), "ibv_create_qp: max_send_wr 1048577 exceeds 1048576");
        let e = Error::os("ibv_create_ah", libc::EINVAL, "sgid_index 9");
        let text = e.to_string();
        assert!(text.starts_with("ibv_create_ah: EINVAL: "), "{text}");
        assert!(text.ends_with(" (sgid_index 9)"), "{text}");
    }

    /// Each reason of the specification's table has a text, and so does an errno of iWARP.
    #[test]
    fn each_rejection_has_a_text() {
        let said = |reason, private_data| {
            let kind = ErrorKind::Rejected { reason, private_data };
            Error::new("rdma_connect", kind).to_string()
        };
        assert_eq!(
            said(4, vec![]),
            "rdma_connect: rejected with reason 4 (a message of the handshake was late: try \
             again), 0 bytes of private data"
        );
        assert_eq!(
            said(8, vec![]),
            "rdma_connect: rejected with reason 8 (no program listens there), 0 bytes of private \
             data"
        );
        assert_eq!(
            said(10, vec![]),
            "rdma_connect: rejected with reason 10 (stale connection: the peer still has one with \
             this queue pair number, try again), 0 bytes of private data"
        );
        assert_eq!(
            said(28, vec![1, 2]),
            "rdma_connect: rejected with reason 28 (the peer's program rejected the request), 2 \
             bytes of private data"
        );
        assert_eq!(
            said(-libc::ECONNRESET, vec![]),
            "rdma_connect: rejected (ECONNRESET: Connection reset by peer), 0 bytes of private data"
        );
        let unknown = rej_reason(34);
        assert_eq!(unknown, "see the REJ reasons of the InfiniBand connection manager");
        assert!((1..=33).chain([35]).all(|reason| rej_reason(reason) != unknown));
    }

    /// Each errno that rdma_cm, verbs or this crate reports has its name.
    #[test]
    fn an_errno_has_its_name() {
        let said = |errno| Errno(errno).to_string();
        assert_eq!(said(libc::ENXIO), "ENXIO: No such device or address");
        assert_eq!(said(libc::EISCONN), "EISCONN: Transport endpoint is already connected");
        assert_eq!(said(libc::EPROTO), "EPROTO: Protocol error");
        assert_eq!(said(libc::EEXIST), "EEXIST: File exists");
        assert_eq!(said(libc::EPROTONOSUPPORT), "EPROTONOSUPPORT: Protocol not supported");
        assert_eq!(said(libc::ENFILE), "ENFILE: Too many open files in system");
        assert_eq!(said(libc::EXDEV), "errno 18: Invalid cross-device link"); // any other
    }
}
