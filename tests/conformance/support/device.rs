//! The device under test.

use std::env;
use std::time::Instant;

use proverbs::Context;
use proverbs::device::{AddressVector, Gid, LinkLayer, Protocol, Provider};
use proverbs::loopback::{Fabric, Personality, World};

/// The device whose behaviour a test expects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// This crate's software device, which follows IBA.
    Loopback,
    /// Soft-RoCE, whose behaviour depends on the kernel.
    Rxe,
    /// Linux's software iWARP.
    Siw,
    /// Any other device, which is expected to follow IBA.
    Hardware,
}

fn world() -> World {
    match env::var("PROVERBS_WORLD").as_deref() {
        Err(_) | Ok("ipv4") => World::ipv4(),
        Ok("ipv6") => World::ipv6(),
        Ok("infiniband") => World::infiniband(),
        Ok("iwarp") => World::iwarp(),
        Ok("unknown") => World::ipv4().provider(Provider::Unknown),
        Ok(other) => {
            panic!(
                "unknown PROVERBS_WORLD {other}; expected ipv4, ipv6, infiniband, iwarp or \
                unknown"
            )
        }
    }
}

/// An open device, its port 1, and one entry of its GID table.
#[derive(Clone)]
pub struct Device {
    pub ctx: Context,
    pub gid_index: u8,
    pub kind: Kind,
    /// Only for the loopback device.
    #[allow(dead_code)] // used by suites with rdma_cm
    pub fabric: Option<Fabric>,
}

/// One exact value for each device, with the rule that explains the difference: `rxe`, or
/// `rxe before` or `rxe from` a version of Linux, such as `(6, 12)`; or `siw`.
macro_rules! by_rule {
    ($dev:expr, $rule:literal, loopback: $loopback:expr, rxe: $rxe:expr $(,)?) => {
        by_rule!(@ $dev, $rule, $loopback, $rxe, Rxe, true)
    };
    ($dev:expr, $rule:literal, loopback: $loopback:expr, rxe before $linux:tt: $rxe:expr $(,)?) => {
        by_rule!(@ $dev, $rule, $loopback, $rxe, Rxe, $crate::support::linux() < $linux)
    };
    ($dev:expr, $rule:literal, loopback: $loopback:expr, rxe from $linux:tt: $rxe:expr $(,)?) => {
        by_rule!(@ $dev, $rule, $loopback, $rxe, Rxe, $crate::support::linux() >= $linux)
    };
    ($dev:expr, $rule:literal, loopback: $loopback:expr, siw: $siw:expr $(,)?) => {
        by_rule!(@ $dev, $rule, $loopback, $siw, Siw, true)
    };
    (@ $dev:expr, $rule:literal, $loopback:expr, $other:expr, $kind:ident, $differs:expr) => {
        if $dev.kind == $crate::support::Kind::$kind && $differs {
            println!("{}: this device differs: {}", $rule, stringify!($other));
            $other
        } else {
            $loopback
        }
    };
}
pub(crate) use by_rule;

/// The running kernel's version, 6.12 as `(6, 12)`.
pub fn linux() -> (u32, u32) {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").expect("Linux");
    let mut numbers = release.split('.').map(|number| number.parse().expect("a number"));
    let mut number = || numbers.next().expect("a kernel release has two numbers");
    (number(), number())
}

impl Device {
    pub fn open() -> Device {
        let Ok(name) = env::var("PROVERBS_DEVICE") else {
            return Device::loopback(&Device::fabric());
        };
        let index = env::var("PROVERBS_GID_INDEX").unwrap_or_else(|_| "0".into());
        let gid_index = index.parse().expect("PROVERBS_GID_INDEX must be a number");
        let ctx = Context::open(&name).expect("PROVERBS_DEVICE must name a device");
        let kind = match () {
            () if name.starts_with("rxe") => Kind::Rxe,
            () if name.starts_with("siw") => Kind::Siw,
            () => Kind::Hardware,
        };
        Device { ctx, gid_index, kind, fabric: None }
    }

    /// A new fabric, with the personality from `PROVERBS_PERSONALITY` and the world from
    /// `PROVERBS_WORLD`. (Miri needs `-Zmiri-env-forward=PROVERBS_PERSONALITY`.)
    pub fn fabric() -> Fabric {
        Fabric::with(world().personality(Device::personality()))
    }

    /// The loopback device's behaviour where the manual pages leave it open.
    pub fn personality() -> Personality {
        match env::var("PROVERBS_PERSONALITY") {
            Ok(name) => name.parse().expect("PROVERBS_PERSONALITY must name a personality"),
            Err(_) => Personality::Plain,
        }
    }

    /// Whether destroying or resetting a queue pair removes its unpolled completions; `None` if it
    /// sometimes does.
    pub fn takes_completions_along(&self) -> Option<bool> {
        match (self.kind, Device::personality()) {
            (Kind::Rxe, _) | (Kind::Loopback, Personality::Plain | Personality::Rxe) => Some(false),
            (Kind::Loopback, Personality::Mlx5) => Some(true),
            _ => None,
        }
    }

    /// Whether it is Soft-RoCE, or the loopback device with its personality, which refuse LOCAL_INV
    /// of windows (R1.6).
    pub fn is_soft_roce(&self) -> bool {
        match self.kind {
            Kind::Rxe => true,
            Kind::Loopback => Device::personality() == Personality::Rxe,
            _ => false,
        }
    }

    /// A new device on this fabric.
    #[allow(dead_code)] // other suites choose their fabric
    pub fn loopback(fabric: &Fabric) -> Device {
        let ctx = fabric.open_device();
        // On InfiniBand the table has one entry; in other worlds the second is an IP address.
        let is_infiniband = ctx.query_port(1).unwrap().link_layer == LinkLayer::InfiniBand;
        let fabric = Some(fabric.clone());
        Device { ctx, gid_index: !is_infiniband as u8, kind: Kind::Loopback, fabric }
    }

    pub fn gid(&self) -> Gid {
        self.ctx.query_gid(1, self.gid_index).unwrap()
    }

    /// Whether only rdma_cm connects its queue pairs.
    pub fn is_iwarp(&self) -> bool {
        self.ctx.protocol(1).unwrap() == Protocol::Iwarp
    }

    /// The address vector of this device itself.
    pub fn vector(&self) -> AddressVector {
        let port = self.ctx.query_port(1).unwrap();
        match port.link_layer {
            LinkLayer::InfiniBand => AddressVector::infiniband(1, port.lid),
            _ => AddressVector::roce(1, self.gid(), self.gid_index),
        }
    }

    /// The largest UD message.
    pub fn mtu(&self) -> usize {
        self.ctx.query_port(1).unwrap().active_mtu.unwrap().bytes() as usize
    }

    pub fn deadline(&self, what: &str) -> Deadline {
        Deadline {
            what: what.to_owned(),
            polls: 0,
            on_loopback: self.kind == Kind::Loopback,
            started: Instant::now(),
        }
    }
}

/// The text of an error. Miri and musl have their own texts for errnos; glibc's replace them.
pub fn said(error: &dyn std::fmt::Display) -> String {
    let mut text = error.to_string();
    if cfg!(any(miri, not(target_env = "gnu"))) {
        let words = [
            (12, "Cannot allocate memory"),
            (16, "Device or resource busy"),
            (22, "Invalid argument"),
        ];
        for (errno, words) in words {
            let here = std::io::Error::from_raw_os_error(errno).to_string();
            if let Some(here) = here.split(" (os error").next() {
                text = text.replace(here, words);
            }
        }
    }
    text
}

/// A limit on how long a test polls.
pub struct Deadline {
    what: String,
    polls: u64,
    on_loopback: bool,
    started: Instant,
}

/// The loopback device works during polls: retries of a lost message take hundreds.
const LOOPBACK_POLLS: u64 = 20_000;

impl Deadline {
    /// Counts a poll that found nothing new.
    pub fn tick(&mut self, so_far: &dyn std::fmt::Debug) {
        self.polls += 1;
        // Other processes share the processors.
        std::thread::yield_now();
        let enough = !self.on_loopback || self.polls > LOOPBACK_POLLS;
        // A real device or another thread takes time.
        let over = enough && self.started.elapsed() > super::patience();
        assert!(!over, "after {} polls: {}; so far: {so_far:?}", self.polls, self.what);
    }
}
