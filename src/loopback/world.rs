//! What the devices of a fabric are: their port, how they are addressed, and what they grant.

use super::limits;
use super::personality::Personality;

/// What the devices of a [`Fabric`](super::Fabric) are, for [`Fabric::with`](super::Fabric::with).
///
/// Without more they are Ethernet ports (RoCE) with IPv4 addresses, as [`Fabric::new`](super::Fabric::new) has them.
///
/// ```
/// use proverbs::{loopback::{Fabric, Grants, Personality, World}, *};
///
/// // An InfiniBand port: a LID leads there, and datagrams have no GRH unless one is asked for.
/// let world = World::infiniband().personality(Personality::Mlx5);
/// let context = Fabric::with(world).open_device();
/// let port = context.query_port(1)?;
/// assert_eq!(port.link_layer, LinkLayer::InfiniBand);
/// let pd = context.alloc_pd()?;
/// let _to_myself = pd.create_ah(AddressVector::infiniband(1, port.lid))?;
///
/// // Addresses of IPv6, and a device that grants more than it was asked for.
/// let context = Fabric::with(World::ipv6().grants(Grants::More)).open_device();
/// assert_eq!(context.query_gid(1, 1)?.to_string(), "fd00::1");
/// let cq: CompletionQueue = context.create_cq(10)?;
/// assert!(cq.capacity() > 10);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a world is for `Fabric::with`"]
pub struct World {
    pub(super) link: Link,
    pub(super) personality: Personality,
    pub(super) grants: Grants,
    pub(super) width: u8,
    pub(super) speed: u8,
}

/// How ports are addressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Link {
    Ipv4,
    Ipv6,
    InfiniBand,
}

/// What a device grants of what it is asked for, in a [`World`] (R2.11).
///
/// ```
/// use proverbs::{loopback::{Fabric, Grants, Limit, World}, *};
///
/// // No manual page allows it; what asks for 8 and gets 7 must not believe in 8.
/// let context = Fabric::with(World::ipv4().grants(Grants::LessOf(Limit::SendWr))).open_device();
/// let (pd, cq) = (context.alloc_pd()?, context.create_cq(64)?);
/// let depth = Depth { send: 8, recv: 8 };
/// assert!(pd.create_qp::<Rc, DefaultProfile>(&cq, &cq, depth).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Grants {
    /// What it was asked for.
    #[default]
    Exactly,
    /// Half as much again and one, or its maximum; as the manual pages allow.
    More,
    /// One less of this; of the others what it was asked for. No device should.
    LessOf(Limit),
}

/// A limit that an object is created with: for [`Grants::LessOf`].
///
/// The example is that of [`Grants`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Limit {
    /// `max_send_wr` of a queue pair.
    SendWr,
    /// `max_recv_wr` of a queue pair.
    RecvWr,
    /// `max_send_sge` of a queue pair.
    SendSge,
    /// `max_recv_sge` of a queue pair.
    RecvSge,
    /// `max_inline_data` of a queue pair.
    Inline,
    /// `cqe` of a completion queue.
    Cqe,
    /// `max_wr` of a shared receive queue.
    SrqWr,
    /// `max_sge` of a shared receive queue.
    SrqSge,
}

impl Limit {
    /// The device's own.
    fn most(self) -> u32 {
        match self {
            Limit::SendWr | Limit::RecvWr => limits::QP_WR,
            Limit::SendSge | Limit::RecvSge | Limit::SrqSge => limits::SGE,
            Limit::Inline => limits::INLINE,
            Limit::Cqe => limits::CQE,
            Limit::SrqWr => limits::SRQ_WR,
        }
    }
}

impl Default for World {
    /// [`World::ipv4`].
    fn default() -> World {
        World::ipv4()
    }
}

impl From<Personality> for World {
    /// [`World::ipv4`], with this personality.
    fn from(personality: Personality) -> World {
        World::ipv4().personality(personality)
    }
}

impl World {
    const fn of(link: Link) -> World {
        let (personality, grants) = (Personality::Plain, Grants::Exactly);
        // 4 lanes, EDR.
        World { link, personality, grants, width: 2, speed: 32 }
    }

    /// RoCE over IPv4: entry 0 of the GID table is link-local, entry 1 is 10.0.0.1 for the first device.
    pub const fn ipv4() -> World {
        World::of(Link::Ipv4)
    }

    /// RoCE over IPv6: entry 1 of the GID table is fd00::1 for the first device, and every GRH is an IPv6 header.
    pub const fn ipv6() -> World {
        World::of(Link::Ipv6)
    }

    /// InfiniBand: a port has a LID (1 for the first device), and one GID, of the subnet prefix fe80:: and its GUID. A
    /// datagram has a GRH only if its address vector has a global route.
    pub const fn infiniband() -> World {
        World::of(Link::InfiniBand)
    }

    /// Devices that behave so.
    pub const fn personality(self, personality: Personality) -> World {
        World { personality, ..self }
    }

    /// Devices that grant so much.
    pub const fn grants(self, grants: Grants) -> World {
        World { grants, ..self }
    }

    /// Ports that name this width and this speed, in the codes of `active_width` and `active_speed` of
    /// ibv_query_port(3), those that nobody knows included.
    ///
    /// ```
    /// # use proverbs::{loopback::{Fabric, World}, *};
    /// let port = Fabric::with(World::ipv4().port_rate(1, 1)).open_device().query_port(1)?;
    /// assert_eq!((port.lanes, port.lane_speed), (Some(1), Some(25))); // one lane, SDR: 2.5 Gbit/s
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub const fn port_rate(self, width: u8, speed: u8) -> World {
        World { width, speed, ..self }
    }

    /// What is granted of a limit that is not 0.
    pub(super) fn grant(&self, limit: Limit, asked: u32) -> u32 {
        match self.grants {
            _ if asked == 0 => 0,
            Grants::More => (asked + asked / 2 + 1).min(limit.most()),
            Grants::LessOf(less) if less == limit => asked - 1,
            Grants::Exactly | Grants::LessOf(_) => asked,
        }
    }
}
