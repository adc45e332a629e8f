//! The properties of a fabric's devices: ports, addresses, and the limits that they grant.

use crate::words::limits;
use crate::words::personality::Personality;
use proverbs_sys::provider::Provider;
use proverbs_sys::terms::bounded::Mtu;

/// The properties of the devices of a [`Fabric`], for
/// `Fabric::with`.
///
/// The default, used by [`Fabric::new`], is Ethernet ports (RoCE) with IPv4
/// addresses.
///
/// ```
/// use proverbs::{loopback::{Fabric, Grants, Personality, World}, prelude::*};
/// use proverbs::device::LinkLayer;
///
/// // An InfiniBand port: a LID leads there, and datagrams have no GRH unless one is requested.
/// let world = World::infiniband().personality(Personality::Mlx5);
/// let context = Fabric::with(world).open_device();
/// let port = context.query_port(1)?;
/// assert_eq!(port.link_layer, LinkLayer::InfiniBand);
/// let pd = context.alloc_pd()?;
/// let _to_myself = pd.create_ah(AddressVector::infiniband(1, port.lid))?;
///
/// // IPv6 addresses, and a device that grants more than requested.
/// let context = Fabric::with(World::ipv6().grants(Grants::More)).open_device();
/// assert_eq!(context.query_gid(1, 1)?.to_string(), "fd00::1");
/// let cq: CompletionQueue = context.create_cq(10)?;
/// assert!(cq.capacity() > 10);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// [`Fabric::new`]: https://docs.rs/proverbs/latest/proverbs/loopback/struct.Fabric.html#method.new
/// [`Fabric`]: https://docs.rs/proverbs/latest/proverbs/loopback/struct.Fabric.html
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a world has no effect until it is passed to `Fabric::with`"]
pub struct World {
    pub(crate) link: Link,
    pub(crate) personality: Personality,
    pub(crate) grants: Grants,
    pub(crate) width: u8,
    pub(crate) speed: u32,
    pub(crate) mtu: Mtu,
    pub(crate) longest: u32,
    pub(crate) region: u64,
    /// InfiniBand ports have 2^lmc LIDs.
    pub(crate) lmc: u8,
    /// The devices are EFA's; the seed gives the order in which SRD delivers.
    pub(crate) srd: Option<u64>,
    /// The provider that the devices report.
    pub(crate) provider: Provider,
}

/// The link layer and address family of ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Link {
    Ipv4,
    Ipv6,
    InfiniBand,
    /// With IPv4 addresses.
    Iwarp,
}

/// How a device grants requested limits, in a [`World`] ([R2.11]).
///
/// ```
/// use proverbs::{loopback::{Fabric, Grants, Capacity, World}, prelude::*};
///
/// // No manual page allows it; what asks for 8 and gets 7 must not believe in 8.
/// let context =
///     Fabric::with(World::ipv4().grants(Grants::LessOf(Capacity::SendWr))).open_device();
/// let (pd, cq) = (context.alloc_pd()?, context.create_cq(64)?);
/// let depth = Depth { send: 8, recv: 8 };
/// assert!(pd.create_qp::<Rc, DefaultProfile>(&cq, &cq, depth).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// [R2.11]: https://docs.rs/proverbs/latest/proverbs/guide/rules/index.html#r2-11
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Grants {
    /// Exactly as requested.
    #[default]
    Exactly,
    /// One and a half times the requested limit plus one, at most the device's maximum, as the
    /// manual pages allow.
    More,
    /// One less than requested for this capacity, and the others as requested. No device should do
    /// this.
    LessOf(Capacity),
}

/// A capacity that is set when an object is created, for [`Grants::LessOf`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Capacity {
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

impl Default for World {
    /// [`World::ipv4`].
    fn default() -> World {
        World::ipv4()
    }
}

impl From<Personality> for World {
    /// [`World::ipv4`] with this personality.
    fn from(personality: Personality) -> World {
        World::ipv4().personality(personality)
    }
}

impl World {
    const fn of(link: Link) -> World {
        let (personality, grants) = (Personality::Plain, Grants::Exactly);
        let (mtu, longest) = (Mtu::Bytes4096, limits::MESSAGE as u32);
        // 4 lanes, EDR.
        World {
            link,
            personality,
            grants,
            width: 2,
            speed: 32,
            mtu,
            longest,
            region: u64::MAX,
            lmc: 0,
            srd: None,
            provider: Provider::Loopback,
        }
    }

    /// RoCE over IPv4: entry 0 of the GID table is link-local, entry 1 is 10.0.0.1 for the first
    /// device, and entries 2 and 3 are the same two GIDs as RoCE v1.
    pub const fn ipv4() -> World {
        World::of(Link::Ipv4)
    }

    /// RoCE over IPv6: entry 1 of the GID table is fd00::1 for the first device, and every GRH is
    /// an IPv6 header.
    pub const fn ipv6() -> World {
        World::of(Link::Ipv6)
    }

    /// InfiniBand: a port has a LID (1 for the first device) and one GID, made of the subnet prefix
    /// fe80:: and its GUID. A datagram has a GRH only if its address vector has a global route.
    pub const fn infiniband() -> World {
        World::of(Link::InfiniBand)
    }

    /// iWARP as siw provides it, with IPv4 addresses. It has only RC queue pairs. rdma_cm connects
    /// them, on ids [of the fabric], and moves them to RTS itself. There are no address vectors,
    /// immediates or atomics, and a READ fills only one element. Work requests have at most 6
    /// elements or 80 inline bytes, and receives at least one element. A work request that is
    /// posted in the error state never completes, and `query` reports RESET in every state. GIDs
    /// are as on [`ipv4`](World::ipv4), but not used.
    ///
    /// [of the fabric]: https://docs.rs/proverbs/latest/proverbs/cm/struct.CmId.html#method.on
    pub const fn iwarp() -> World {
        World { provider: Provider::Siw, ..World::of(Link::Iwarp) }
    }

    /// Amazon's EFA: only UD and [`Srd`] queue pairs, no shared receive queues, and messages of at
    /// most 8928 bytes, except RDMA. SRD delivers and completes in an order drawn from a seed
    /// ([`shuffled`](World::shuffled)). As on EFA, it reports a READ's completion as a SEND, and
    /// answers RDMA only if the peer's device has an address handle for the sender's device. (Ports
    /// and addresses are as on [`ipv4`](World::ipv4), unlike on EFA.)
    ///
    /// [`sender`] has an example.
    ///
    /// [`sender`]: https://docs.rs/proverbs/latest/proverbs/struct.QueuePair.html#method.sender
    /// [`Srd`]: https://docs.rs/proverbs/latest/proverbs/transport/enum.Srd.html
    pub const fn efa() -> World {
        World { srd: Some(0), longest: 8928, ..World::of(Link::Ipv4) }
    }

    /// Sets the seed of the order in which SRD delivers. It has no effect on other worlds. The same
    /// program with the same seed sees the same order.
    ///
    /// ```
    /// # use proverbs::{loopback::{Fabric, World}, prelude::*};
    /// for seed in 0..8 {
    ///     println!("seed {seed}"); // shown if the test fails
    ///     let context = Fabric::with(World::efa().shuffled(seed)).open_device();
    ///     // ...
    /// #   drop(context);
    /// }
    /// ```
    pub const fn shuffled(self, seed: u64) -> World {
        if self.srd.is_some() { World { srd: Some(seed), ..self } } else { self }
    }

    /// Sets the personality of the devices.
    pub const fn personality(self, personality: Personality) -> World {
        World { personality, ..self }
    }

    /// Sets the provider that the devices report. Their behaviour does not change. The crate relies
    /// only on the promises that a provider is known to keep, and is stricter with other providers:
    /// see [`Provider`].
    ///
    /// ```
    /// use proverbs::{device::Provider, loopback::{Fabric, World}, prelude::*};
    /// profile! { Ring { signaling: Selective } }
    ///
    /// let world = World::ipv4().provider(Provider::Unknown);
    /// let context = Fabric::with(world).open_device();
    /// assert_eq!(context.provider(), Provider::Unknown);
    /// let (pd, cq) = (context.alloc_pd()?, context.create_cq(16)?);
    /// let depth = Depth { send: 4, recv: 4 };
    /// let error = pd.create_qp::<Rc, Ring>(&cq, &cq, depth).unwrap_err();
    /// assert!(error.to_string().contains("signaling: SignalAll"), "{error}");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub const fn provider(self, provider: Provider) -> World {
        World { provider, ..self }
    }

    /// Sets how the devices grant limits.
    pub const fn grants(self, grants: Grants) -> World {
        World { grants, ..self }
    }

    /// Sets the width and speed that ports report, in the codes of `active_width` and
    /// `active_speed` of ibv_query_port(3), or for speeds above 255 of `active_speed_ex`. Unknown
    /// codes are allowed.
    ///
    /// ```
    /// # use proverbs::{loopback::{Fabric, World}, prelude::*};
    /// let port = Fabric::with(World::ipv4().port_rate(1, 1)).open_device().query_port(1)?;
    /// assert_eq!((port.lanes, port.lane_speed), (Some(1), Some(25))); // one lane, SDR: 2.5 Gbit/s
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub const fn port_rate(self, width: u8, speed: u32) -> World {
        World { width, speed, ..self }
    }

    /// Sets the active MTU of ports, and the length of their longest message in bytes; 0 leaves the
    /// length unreported.
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// # use proverbs::loopback::*;
    /// let short = World::ipv4().messages(Mtu::Bytes512, 2048);
    /// let port = Fabric::with(short).open_device().query_port(1)?;
    /// assert_eq!((port.active_mtu, port.max_msg_sz), (Some(Mtu::Bytes512), 2048));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub const fn messages(self, mtu: Mtu, longest: u32) -> World {
        World { mtu, longest, ..self }
    }

    /// Sets the length of the longest region in bytes (`max_mr_size`).
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// # use proverbs::loopback::*;
    /// let pd = Fabric::with(World::ipv4().regions(4096)).open_device().alloc_pd()?;
    /// assert!(pd.register::<RemoteRead>(4096).is_ok());
    /// let error = pd.register::<RemoteRead>(4097).unwrap_err();
    /// assert!(error.to_string().ends_with("length 4097 exceeds 4096"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub const fn regions(self, longest: u64) -> World {
        World { region: longest, ..self }
    }

    /// Sets the number of LIDs of InfiniBand ports to 2^lmc (`lmc` of ibv_query_port(3), at most
    /// 7). Paths to any of them lead to the port. The first device's LIDs start at 2^lmc. It has no
    /// effect on other worlds.
    ///
    /// ```
    /// # use proverbs::{loopback::{Fabric, World}, prelude::*};
    /// let context = Fabric::with(World::infiniband().lid_mask(2)).open_device();
    /// let port = context.query_port(1)?;
    /// assert_eq!((port.lid, port.lmc), (4, 2)); // 4, 5, 6 and 7
    /// let to_myself =
    ///     AddressVector { src_path_bits: 3, ..AddressVector::infiniband(1, port.lid + 1) };
    /// assert!(context.alloc_pd()?.create_ah(to_myself).is_ok()); // from 7 to 5
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub const fn lid_mask(self, lmc: u8) -> World {
        World { lmc: if lmc > 7 { 7 } else { lmc }, ..self }
    }

    /// The maximum of `limit` on each device of this world.
    pub(crate) fn most(&self, limit: Capacity) -> u32 {
        let is_iwarp = self.link == Link::Iwarp;
        match limit {
            Capacity::SendWr | Capacity::RecvWr => limits::QP_WR,
            Capacity::SendSge | Capacity::RecvSge | Capacity::SrqSge if is_iwarp => {
                limits::SGE_IWARP
            }
            Capacity::SendSge | Capacity::RecvSge | Capacity::SrqSge => limits::SGE,
            Capacity::Inline if is_iwarp => limits::INLINE_IWARP,
            Capacity::Inline => limits::INLINE,
            Capacity::Cqe => limits::CQE,
            Capacity::SrqWr => limits::SRQ_WR,
        }
    }

    /// The granted value of a limit that is not 0.
    pub(crate) fn grant(&self, limit: Capacity, asked: u32) -> u32 {
        match self.grants {
            _ if asked == 0 => 0,
            Grants::More => (asked + asked / 2 + 1).min(self.most(limit)),
            Grants::LessOf(less) if less == limit => asked - 1,
            Grants::Exactly | Grants::LessOf(_) => asked,
        }
    }
}
