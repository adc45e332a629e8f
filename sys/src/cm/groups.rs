//! The multicast groups that an id joined, each once.

// No model: an event records once that a join failed, and a later join of the group reads it. The
// flag guards no other memory.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A multicast group that an id has joined or is joining.
#[derive(Debug)]
struct Group {
    key: u64,
    address: SocketAddr,
    failed: Failed,
}

/// Whether a join failed or was abandoned.
#[derive(Clone, Debug, Default)]
pub struct Failed(Arc<AtomicBool>);

impl Failed {
    pub fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// # Invariants
/// No two groups have the same IP address. librdmacm leaves a group by its address, so it might
/// leave either of two, and the reply to the other join would be lost.
#[derive(Debug, Default)]
pub(crate) struct Groups(Vec<Group>);

impl Groups {
    /// Whether the group of this address is joined or being joined.
    pub(crate) fn has(&self, address: SocketAddr) -> bool {
        self.find(address).is_some_and(|group| !group.failed.is_set())
    }

    /// The key of a join of this address that failed or was abandoned. It must be left first.
    pub(crate) fn failed(&self, address: SocketAddr) -> Option<u64> {
        self.find(address).filter(|group| group.failed.is_set()).map(|group| group.key)
    }

    fn find(&self, address: SocketAddr) -> Option<&Group> {
        let ip = |address: SocketAddr| -> IpAddr { address.ip().to_canonical() };
        self.0.iter().find(|group| ip(group.address) == ip(address))
    }

    pub(crate) fn add(&mut self, key: u64, address: SocketAddr) -> Failed {
        let failed = Failed::default();
        self.0.push(Group { key, address, failed: failed.clone() });
        failed
    }

    /// Removes a group, and returns its address.
    pub(crate) fn remove(&mut self, key: u64) -> Option<SocketAddr> {
        let at = self.0.iter().position(|group| group.key == key)?;
        Some(self.0.remove(at).address)
    }

    /// Removes any group, and returns its address.
    pub(crate) fn pop(&mut self) -> Option<SocketAddr> {
        self.0.pop().map(|group| group.address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An id cannot join one multicast group twice, so leaving it discards no reply to
    /// another join.
    #[test]
    fn a_group_is_joined_once_until_it_is_left_or_its_join_failed() {
        let at = |text: &str| text.parse::<SocketAddr>().unwrap();
        let mut groups = Groups::default();
        let first = groups.add(1, at("239.77.0.1:7471"));
        for same in ["239.77.0.1:7471", "239.77.0.1:0", "[::ffff:239.77.0.1]:7471"] {
            assert!(groups.has(at(same)), "{same}");
        }
        assert!(!groups.has(at("239.77.0.2:7471")));
        groups.add(2, at("239.77.0.2:7471"));
        assert!(groups.has(at("239.77.0.2:7471")));
        assert_eq!(groups.failed(at("239.77.0.1:7471")), None);
        first.set();
        assert!(!groups.has(at("239.77.0.1:7471")));
        assert_eq!(groups.failed(at("239.77.0.1:7471")), Some(1));
        assert_eq!(groups.remove(1), Some(at("239.77.0.1:7471")));
        assert_eq!(groups.remove(1), None);
        assert!(!groups.has(at("239.77.0.1:7471")));
        let last = Some(at("239.77.0.2:7471"));
        assert_eq!((groups.pop(), groups.pop()), (last, None));
    }
}
