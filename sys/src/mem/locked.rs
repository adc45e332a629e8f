//! The limit on locked memory, for error messages.

use crate::terms::error::{Error, ErrorKind};

/// `RLIMIT_MEMLOCK` of this process in bytes; `None` if there is no limit.
fn limit() -> Option<u64> {
    let mut limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: `limit` is a local that the call fills.
    unsafe { libc::getrlimit(libc::RLIMIT_MEMLOCK, &mut limit) };
    Some(limit.rlim_cur).filter(|&limit| limit != libc::RLIM_INFINITY)
}

/// The number of bytes in `field` of /proc/self/status: `VmPin` is memory pinned by devices,
/// `VmLck` memory locked by mlock(2).
fn held(status: &str, field: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))?;
    line.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
}

/// Whether the process has CAP_IPC_LOCK, which lifts the limit.
fn is_exempt(status: &str) -> bool {
    const CAP_IPC_LOCK: u64 = 1 << 14;
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let set = line.and_then(|set| u64::from_str_radix(set.trim(), 16).ok());
    set.is_some_and(|set| set & CAP_IPC_LOCK != 0)
}

/// The status of this process, with its memory counters and capabilities.
fn status() -> String {
    std::fs::read_to_string("/proc/self/status").unwrap_or_default()
}

/// The limit on locked memory and how much of it is used, if this process has a limit.
pub fn limit_of_pinned() -> Option<String> {
    left(&status(), limit()?)
}

fn left(status: &str, limit: u64) -> Option<String> {
    if is_exempt(status) {
        return None;
    }
    let pinned = held(status, "VmPin").unwrap_or(0);
    let left = limit.saturating_sub(pinned);
    Some(format!(
        "a driver may pin {left} more bytes (RLIMIT_MEMLOCK is {limit}): if the queue needs more, \
         raise it by `ulimit -l`, /etc/security/limits.conf, or `LimitMEMLOCK=` of systemd"
    ))
}

/// The error of a call that pins or locks memory and failed with ENOMEM. It is the limit on locked
/// memory, if that explains the failure. `field` of the status counts the memory that such calls
/// hold.
pub fn locked_memory(verb: &'static str, field: &'static str, asked: String, len: usize) -> Error {
    explain(verb, asked, len as u64, field, &status(), limit())
}

fn explain(
    verb: &'static str,
    asked: String,
    len: u64,
    field: &str,
    status: &str,
    limit: Option<u64>,
) -> Error {
    let held = held(status, field).unwrap_or(0);
    match limit {
        Some(limit) if held.saturating_add(len) > limit => {
            if is_exempt(status) {
                // (In a container the kernel may decide differently.)
                let asked = format!(
                    "{asked}; RLIMIT_MEMLOCK is {limit}, which does not apply with CAP_IPC_LOCK"
                );
                return Error::os(verb, libc::ENOMEM, asked);
            }
            Error::new(verb, ErrorKind::LockedMemory { asked: len, locked: held, limit })
        }
        _ => Error::os(verb, libc::ENOMEM, asked),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The status of a process with this much locked and pinned memory, in kB, or with the
    /// capability.
    const NOTHING: &str = "CapEff:\t000001ffffffbfff\n";
    const SOME: &str = "VmLck:\t 8 kB\nVmPin:\t 4 kB\nCapEff:\t0000000000000000\n";
    const EXEMPT: &str = "VmLck:\t 8 kB\nVmPin:\t 4 kB\nCapEff:\t0000000000004000\n";

    /// Proves R18.7.
    #[test]
    fn the_limit_is_reported_if_it_is_the_reason() {
        const LIMIT: u64 = 1 << 20;
        let error = |len, field, status, limit| {
            explain("ibv_reg_mr", format!("{len} bytes"), len, field, status, limit)
        };
        let limited = error(LIMIT, "VmPin", SOME, Some(LIMIT));
        assert_eq!(limited.errno(), Some(libc::ENOMEM));
        assert_eq!(
            limited.kind(),
            &ErrorKind::LockedMemory { asked: LIMIT, locked: 4096, limit: LIMIT }
        );
        let text = limited.to_string();
        let rest = " (1048576 bytes, 4096 bytes are locked already, and the limit is 1048576: raise \
                    RLIMIT_MEMLOCK by `ulimit -l`, /etc/security/limits.conf, or `LimitMEMLOCK=` of systemd)";
        assert!(text.starts_with("ibv_reg_mr: ENOMEM: ") && text.ends_with(rest), "{text}");
        // Memory locked by mlock(2) is counted separately.
        for (field, locked) in [("VmPin", 4096), ("VmLck", 8192)] {
            let most = LIMIT - locked;
            let other = ErrorKind::Os { errno: libc::ENOMEM, asked: format!("{most} bytes") };
            assert_eq!(error(most, field, SOME, Some(LIMIT)).kind(), &other, "it fits");
            let beyond = ErrorKind::LockedMemory { asked: most + 1, locked, limit: LIMIT };
            assert_eq!(error(most + 1, field, SOME, Some(LIMIT)).kind(), &beyond);
        }
        let other = ErrorKind::Os { errno: libc::ENOMEM, asked: "1048576 bytes".into() };
        assert_eq!(error(LIMIT, "VmPin", NOTHING, Some(LIMIT)).kind(), &other, "nothing is held");
        assert_eq!(error(LIMIT, "VmPin", SOME, None).kind(), &other);
        let exempt = error(LIMIT, "VmPin", EXEMPT, Some(LIMIT)).to_string();
        assert!(exempt.contains("is 1048576, which does not apply with CAP_IPC_LOCK"), "{exempt}");
    }

    #[test]
    fn the_remaining_limit_is_reported() {
        let said = |status, limit| left(status, limit).unwrap();
        assert!(
            said(SOME, 5000)
                .starts_with("a driver may pin 904 more bytes (RLIMIT_MEMLOCK is 5000)")
        );
        assert!(said(SOME, 4095).starts_with("a driver may pin 0 more bytes"));
        assert!(said(NOTHING, 5000).starts_with("a driver may pin 5000 more bytes"));
        assert_eq!(left(EXEMPT, 5000), None);
    }

    #[test]
    #[cfg_attr(miri, ignore = "asks the system")]
    fn the_limit_is_that_of_the_process() {
        let limits = std::fs::read_to_string("/proc/self/limits").unwrap();
        let line = limits.lines().find_map(|line| line.strip_prefix("Max locked memory")).unwrap();
        assert_eq!(limit(), line.split_whitespace().next().unwrap().parse().ok());
    }

    #[test]
    fn counters_are_read_from_the_status() {
        let status =
            "VmLck:\t      12 kB\nVmPin:\t       4 kB\nVmPinned: 9 kB\nCapEff:\t0000000000004000\n";
        assert_eq!(held(status, "VmPin"), Some(4096));
        assert_eq!(held(status, "VmLck"), Some(12288));
        assert_eq!(held(status, "VmSwap"), None);
        assert!(is_exempt(status) && !is_exempt("CapEff:\t000001ffffffbfff\n"));
    }
}
