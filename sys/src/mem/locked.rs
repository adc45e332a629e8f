//! The limit on locked memory, for messages.

use crate::terms::error::{Error, ErrorKind};

/// `RLIMIT_MEMLOCK` of this process in bytes; `None` if there is no limit.
fn limit() -> Option<u64> {
    let mut limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: `limit` is a local that the call fills.
    unsafe { libc::getrlimit(libc::RLIMIT_MEMLOCK, &mut limit) };
    Some(limit.rlim_cur).filter(|&limit| limit != libc::RLIM_INFINITY)
}

/// The number of bytes that /proc/self/status counts under `field`: `VmPin` is what devices have
/// pinned, `VmLck` what mlock(2) has locked.
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

/// Names the limit on locked memory and how much of it is used, if this process has a limit.
pub fn limit_of_pinned() -> Option<String> {
    let limit = limit()?;
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    if is_exempt(&status) {
        return None;
    }
    let pinned = held(&status, "VmPin").unwrap_or(0);
    let left = limit.saturating_sub(pinned);
    Some(format!(
        "a driver may pin {left} more bytes (RLIMIT_MEMLOCK is {limit}): if the queue needs more, \
         raise it by `ulimit -l`, /etc/security/limits.conf, or `LimitMEMLOCK=` of systemd"
    ))
}

/// The error of a call that pins or locks memory and said ENOMEM: the limit on locked memory, if
/// that explains it.
pub fn locked_memory(verb: &'static str, field: &'static str, asked: String, len: usize) -> Error {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    explain(verb, asked, len as u64, held(&status, field).unwrap_or(0), is_exempt(&status), limit())
}

fn explain(
    verb: &'static str,
    asked: String,
    len: u64,
    held: u64,
    is_exempt: bool,
    limit: Option<u64>,
) -> Error {
    match limit {
        Some(limit) if held.saturating_add(len) > limit => {
            if is_exempt {
                // (In a container the kernel may see it otherwise.)
                let asked = format!(
                    "{asked}; RLIMIT_MEMLOCK is {limit}, of which CAP_IPC_LOCK frees a process"
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

    /// Proves R18.7.
    #[test]
    fn the_limit_is_named_where_it_is_the_reason() {
        let error = |len, held, exempt, limit| {
            explain("ibv_reg_mr", format!("{len} bytes"), len, held, exempt, limit)
        };
        let limited = error(1 << 20, 4096, false, Some(1 << 20));
        assert_eq!(limited.errno(), Some(libc::ENOMEM));
        assert_eq!(
            limited.kind(),
            &ErrorKind::LockedMemory { asked: 1 << 20, locked: 4096, limit: 1 << 20 }
        );
        let text = limited.to_string();
        let rest = " (1048576 bytes, 4096 bytes are locked already, and the limit is 1048576: raise \
                    RLIMIT_MEMLOCK by `ulimit -l`, /etc/security/limits.conf, or `LimitMEMLOCK=` of systemd)";
        assert!(text.starts_with("ibv_reg_mr: ENOMEM: ") && text.ends_with(rest), "{text}");
        let other = ErrorKind::Os { errno: libc::ENOMEM, asked: "1048576 bytes".into() };
        assert_eq!(error(1 << 20, 0, false, Some(1 << 20)).kind(), &other);
        assert_eq!(error(1 << 20, 1 << 30, false, None).kind(), &other);
        let exempt = error(1 << 20, 1, true, Some(1 << 20)).to_string();
        assert!(exempt.contains("RLIMIT_MEMLOCK is 1048576, of which CAP_IPC_LOCK"), "{exempt}");
    }

    #[test]
    #[cfg_attr(miri, ignore = "asks the system")]
    fn the_limit_is_that_of_the_process() {
        let limits = std::fs::read_to_string("/proc/self/limits").unwrap();
        let line = limits.lines().find_map(|line| line.strip_prefix("Max locked memory")).unwrap();
        assert_eq!(limit(), line.split_whitespace().next().unwrap().parse().ok());
    }

    #[test]
    fn what_is_held_is_read_from_the_status() {
        let status =
            "VmLck:\t      12 kB\nVmPin:\t       4 kB\nVmPinned: 9 kB\nCapEff:\t0000000000004000\n";
        assert_eq!(held(status, "VmPin"), Some(4096));
        assert_eq!(held(status, "VmLck"), Some(12288));
        assert_eq!(held(status, "VmSwap"), None);
        assert!(is_exempt(status) && !is_exempt("CapEff:\t000001ffffffbfff\n"));
    }
}
