//! Addresses and ports. The first device of a fabric has the IP address 10.0.0.1, or fd00::1 in an
//! IPv6 world; later devices count on from there.

use std::ffi::c_int;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

use libc::sockaddr_storage;

use super::Kind;
use crate::objects::cm::{Event, Id, Phase, Space};
use crate::state::State;
use crate::words::Verb;
use crate::words::address::{Address, FIRST_LID};
use crate::words::world::Link;
use proverbs_sys::cm::{IbSocket, ib_to_c, to_c};

/// The first port given to ids that request any port.
const FIRST_PORT: u16 = 0xc000;

/// The GID table entry with the device's IP address as RoCE v2.
const GID_INDEX: u8 = 1;
const HOPS: u8 = 64;

/// The default partition, the only one that ports have.
const PKEY: u16 = 0xffff;

/// A native InfiniBand address is represented as IPv6: the GID, with this scope, which no IPv6
/// address has, and the partition instead of the flow label.
const INFINIBAND: u32 = u32::MAX;

pub(super) fn is_infiniband(at: SocketAddr) -> bool {
    matches!(at, SocketAddr::V6(v6) if v6.scope_id() == INFINIBAND)
}

/// The address, if its service is a port of the port space.
pub(super) fn of_infiniband(at: IbSocket, space: Space) -> Verb<SocketAddr> {
    if at.sid & !0xffff != space.services() {
        return Err(libc::EINVAL);
    }
    let (ip, port) = (Ipv6Addr::from(at.gid), at.sid as u16);
    Ok(SocketAddrV6::new(ip, port, at.pkey.into(), INFINIBAND).into())
}

/// The C form of an address.
pub(super) fn to_storage(at: SocketAddr, space: Space) -> sockaddr_storage {
    match at {
        SocketAddr::V6(v6) if is_infiniband(at) => ib_to_c(IbSocket {
            gid: v6.ip().octets(),
            pkey: v6.flowinfo() as u16,
            sid: space.services() | u64::from(v6.port()),
        }),
        _ => to_c(at),
    }
}

/// Whether an address stands for any address of this machine (`cma.c`, `cma_any_addr`).
fn stands_for_any(ip: IpAddr) -> bool {
    ip.is_unspecified() || ip.is_loopback()
}

impl State {
    /// Whether this machine has a route to an address.
    fn has_route(&self, to: SocketAddr) -> bool {
        let is_in_network = match (to.ip(), self.world.link) {
            (IpAddr::V6(ip), Link::Ipv6) => matches!(ip.octets()[0], 0xfd | 0xff),
            (IpAddr::V6(_), _) | (_, Link::Ipv6) => false,
            (IpAddr::V4(ip), _) => matches!(ip.octets()[0], 10 | 224..=239),
        };
        is_in_network || is_infiniband(to) || stands_for_any(to.ip())
    }

    /// The IP address of a device.
    pub(super) fn ip_of(&self, device: u32) -> IpAddr {
        let number = self.place_of(device).wrapping_add(1).to_be_bytes();
        match self.world.link {
            Link::Ipv4 | Link::InfiniBand | Link::Iwarp => {
                let [_, b, c, d] = number;
                Ipv4Addr::new(10, b, c, d).into()
            }
            Link::Ipv6 => {
                let mut octets = [0; 16];
                octets[0] = 0xfd;
                octets[12..].copy_from_slice(&number);
                Ipv6Addr::from(octets).into()
            }
        }
    }

    /// The working device with this IP address. On InfiniBand a GID also selects its device, as in
    /// native addresses.
    pub(super) fn device_with(&self, ip: IpAddr) -> Option<u32> {
        self.there().find(|&device| self.ip_of(device) == ip || self.gid_of(device) == Some(ip))
    }

    /// The device's GID, in a world that may use native InfiniBand addresses.
    fn gid_of(&self, device: u32) -> Option<IpAddr> {
        let gid = self.devices.get(&device)?.get(0)?;
        (self.world.link == Link::InfiniBand).then(|| Ipv6Addr::from(gid).into())
    }

    /// The device's own address, of the same family as `to`.
    fn own(&self, device: u32, to: SocketAddr, port: u16) -> SocketAddr {
        match (to, self.gid_of(device)) {
            _ if stands_for_any(to.ip()) => {
                let this: [IpAddr; 2] = [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
                SocketAddr::new(this[usize::from(to.is_ipv6())], port)
            }
            (SocketAddr::V6(v6), Some(IpAddr::V6(gid))) if is_infiniband(to) => {
                SocketAddrV6::new(gid, port, v6.flowinfo(), INFINIBAND).into()
            }
            _ => SocketAddr::new(self.ip_of(device), port),
        }
    }

    /// Fails with ENODEV if no device has native InfiniBand addresses, or none is in the partition.
    fn check_family(&self, at: SocketAddr) -> Verb {
        let has = self.world.link == Link::InfiniBand;
        match at {
            SocketAddr::V6(v6)
                if is_infiniband(at) && (!has || v6.flowinfo() != u32::from(PKEY)) =>
            {
                Err(libc::ENODEV)
            }
            _ => Ok(()),
        }
    }

    /// The working devices.
    fn there(&self) -> impl Iterator<Item = u32> {
        let gone = |device: &u32| self.cm.removed.contains(device) || self.broken.contains(device);
        self.devices.keys().copied().filter(move |device| !gone(device))
    }

    /// Whether rdma_cm messages pass between two devices.
    pub(super) fn hear_each_other(&self, one: u32, other: u32) -> bool {
        [one, other].iter().all(|device| {
            !self.cm.silent.contains(device) && self.there().any(|there| there == *device)
        })
    }

    /// The address vector of an IP address of a device or a group.
    pub(super) fn way_to(&self, ip: IpAddr) -> Address {
        let dgid = match ip {
            IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
            IpAddr::V6(ip) => ip.octets(),
        };
        let way = Address { hop_limit: HOPS, port: 1, ..Address::default() };
        if self.world.link != Link::InfiniBand {
            return Address { dgid, sgid_index: GID_INDEX, is_global: true, ..way };
        }
        if ip.is_multicast() {
            let dlid = FIRST_LID | u16::from_be_bytes([dgid[14], dgid[15]]) & 0x1fff;
            return Address { dlid, dgid, is_global: true, ..way };
        }
        Address { dlid: self.device_with(ip).map_or(0, |device| self.lid(device)), ..way }
    }

    /// The error for an address that no device has. It differs if the address belonged to a removed
    /// device.
    fn why_not(&self, at: SocketAddr) -> c_int {
        let mut all = self.devices.keys();
        let is_of_a_device = is_infiniband(at) || all.any(|&device| self.ip_of(device) == at.ip());
        if is_of_a_device { libc::ENODEV } else { libc::EADDRNOTAVAIL }
    }

    /// ENODEV and EADDRNOTAVAIL: no device has the address. EADDRINUSE and EADDRNOTAVAIL: another
    /// id has the port.
    pub(super) fn bind_id(&mut self, number: u32, at: SocketAddr) -> Verb {
        self.id_in(number, &[Phase::Idle])?;
        self.check_family(at)?;
        let device = match at.ip() {
            ip if stands_for_any(ip) => None,
            ip => Some(self.device_with(ip).ok_or_else(|| self.why_not(at))?),
        };
        let at = match at.port() {
            0 => self.with_a_port(number, at)?,
            _ => at,
        };
        self.check_port(number, at, true)?;
        let id = self.id(number)?;
        (id.phase, id.device, id.local) = (Phase::Bound, device, Some(at));
        self.cm.ports.insert((at.port(), number));
        Ok(())
    }

    fn with_a_port(&mut self, number: u32, mut at: SocketAddr) -> Verb<SocketAddr> {
        for _ in FIRST_PORT..=u16::MAX {
            let last = self.cm.last_port;
            let next = last.checked_add(1).unwrap_or(FIRST_PORT).max(FIRST_PORT);
            self.cm.last_port = next;
            at.set_port(next);
            if self.check_port(number, at, false).is_ok() {
                return Ok(at);
            }
        }
        Err(libc::EADDRNOTAVAIL)
    }

    /// The ids with this port, and their addresses.
    fn at_port(&self, port: u16) -> impl Iterator<Item = (u32, &Id, SocketAddr)> {
        let all = self.cm.ports.range((port, 0)..=(port, u32::MAX)).map(|&(_, number)| number);
        all.filter_map(|number| {
            let id = self.cm.ids.get(&number)?;
            Some((number, id, id.local?))
        })
    }

    /// Checks that the id may have this port. Two ids may share it if both permit that.
    fn check_port(&self, number: u32, at: SocketAddr, may_share: bool) -> Verb {
        let this = self.cm.ids.get(&number).ok_or(libc::EINVAL)?;
        for (other, id, theirs) in self.at_port(at.port()) {
            let is_apart = id.space != this.space || is_infiniband(at) != is_infiniband(theirs);
            if other == number || is_apart {
                continue;
            }
            let both_share = this.options.reuse_addr && id.options.reuse_addr;
            let apart = this.options.af_only && id.options.af_only;
            if may_share && both_share || apart && at.is_ipv4() != theirs.is_ipv4() {
                continue;
            }
            if stands_for_any(at.ip()) || stands_for_any(theirs.ip()) {
                return Err(libc::EADDRNOTAVAIL);
            }
            if at.ip() == theirs.ip() {
                return Err(libc::EADDRINUSE);
            }
        }
        Ok(())
    }

    /// The device is the one that has the id's own address; otherwise the one that has the peer's;
    /// otherwise the first one, which has a route to every address of the fabric's network. An
    /// address that no device has does not answer in time. (On Linux, an id that is bound to a
    /// device takes any address to be on that device's network.)
    pub(super) fn resolve_addr(&mut self, number: u32, to: SocketAddr) -> Verb {
        self.check_family(to)?;
        let id = self.id_in(number, &[Phase::Idle, Phase::Bound])?;
        let (bound, local) = (id.device, id.local);
        // An id is bound to a family (`cma.c`, `resolve_prepare_src`).
        let family = |at: SocketAddr| (at.is_ipv4(), is_infiniband(at));
        if local.is_some_and(|local| family(local) != family(to)) {
            return Err(libc::EINVAL);
        }
        let there = self.device_with(to.ip());
        let device = bound.or(there).or_else(|| self.there().next()).ok_or(libc::ENODEV)?;
        if bound.is_none() && !self.has_route(to) {
            return Err(libc::ENETUNREACH);
        }
        // It looks for the device's first P_Key (`cma.c`, `cma_bind_loopback`).
        if bound.is_none() && stands_for_any(to.ip()) && self.world.link == Link::Iwarp {
            return Err(libc::EINVAL);
        }
        let local = match local {
            Some(local) if !stands_for_any(local.ip()) => local,
            Some(local) => self.own(device, to, local.port()),
            None => self.with_a_port(number, self.own(device, to, 0))?,
        };
        let answers = to.ip().is_multicast()
            || stands_for_any(to.ip())
            || there.is_some_and(|there| self.hear_each_other(device, there));
        self.cm.ports.insert((local.port(), number));
        let id = self.id(number)?;
        id.local = Some(local);
        if answers {
            (id.phase, id.device, id.remote) = (Phase::AddrResolved, Some(device), Some(to));
            self.tell(Event::of(number, Kind::RDMA_CM_EVENT_ADDR_RESOLVED));
        } else {
            id.phase = Phase::Bound;
            let event = Event::of(number, Kind::RDMA_CM_EVENT_ADDR_ERROR);
            self.tell(event.status(-libc::ETIMEDOUT));
        }
        Ok(())
    }

    pub(super) fn resolve_route(&mut self, number: u32) -> Verb {
        let id = self.id_in(number, &[Phase::AddrResolved])?;
        let (device, to) = (id.device, id.remote.map(|remote| remote.ip()));
        let (device, to) = device.zip(to).ok_or(libc::EINVAL)?;
        // RoCE finds no network device for this machine's own addresses (`cma.c`,
        // `cma_iboe_set_path_rec_l2_fields`). This was not tried on a kernel with InfiniBand.
        if stands_for_any(to) {
            return Err(libc::ENODEV);
        }
        let hears = |there| self.hear_each_other(device, there);
        if to.is_multicast() || self.device_with(to).is_some_and(hears) {
            self.id(number)?.phase = Phase::RouteResolved;
            self.tell(Event::of(number, Kind::RDMA_CM_EVENT_ROUTE_RESOLVED));
        } else {
            let event = Event::of(number, Kind::RDMA_CM_EVENT_ROUTE_ERROR);
            self.tell(event.status(-libc::ETIMEDOUT));
        }
        Ok(())
    }

    /// Ids that share an address may not both listen.
    pub(super) fn listen(&mut self, number: u32, backlog: usize) -> Verb {
        let at = self.id_in(number, &[Phase::Bound])?.local.ok_or(libc::EINVAL)?;
        self.check_port(number, at, false)?;
        let id = self.id(number)?;
        id.phase = Phase::Listening;
        // Linux has the same maximum (`ucma.c`, `max_backlog`).
        id.backlog = if (1..1024).contains(&backlog) { backlog } else { 1024 };
        Ok(())
    }

    /// The id that listens at an address.
    pub(super) fn listener_at(&self, space: Space, at: SocketAddr) -> Option<u32> {
        // TCP listens only at the addresses of the loopback interface.
        let is_iwarp = self.world.link == Link::Iwarp;
        let listens = |&(_, id, local): &(u32, &Id, SocketAddr)| {
            let of_any = stands_for_any(local.ip())
                && !(is_iwarp && local.ip().is_loopback())
                && (local.is_ipv4() == at.is_ipv4() || local.is_ipv6() && !id.options.af_only);
            is_infiniband(local) == is_infiniband(at)
                && id.phase == Phase::Listening
                && id.space == space
                && (of_any || local.ip() == at.ip())
        };
        self.at_port(at.port()).find(listens).map(|(number, ..)| number)
    }
}
