//! Reasons for the absence of RDMA devices.

use std::ffi::c_int;
use std::fmt;
use std::path::PathBuf;

/// The reason why this process cannot use an RDMA device.
///
/// `Display` also prints a remedy.
///
/// ```
/// # use proverbs::prelude::*;
/// use proverbs::device::Absence;
/// # if cfg!(miri) { return }
/// match Context::open("mlx5_0") {
///     Ok(context) => println!("{}", context.name()),
///     Err(error) => match error.kind() {
///         ErrorKind::Absent(Absence::Device | Absence::Module { .. }) => println!("using TCP"),
///         _ => println!("{error}"),
///     },
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Absence {
    /// The process or the system has too many open files (EMFILE, ENFILE).
    Files {
        /// The process's own limit, `RLIMIT_NOFILE`.
        limit: u64,
    },
    /// A C library cannot be loaded.
    Library {
        /// The name of its file, such as `libibverbs.so.1`.
        file: &'static str,
        /// The dynamic linker's message.
        reason: String,
    },
    /// sysfs is not mounted at /sys, where the libraries look for devices.
    Sysfs,
    /// A kernel module is not loaded.
    Module {
        /// The name of the module.
        name: &'static str,
    },
    /// The kernel has no RDMA device.
    Device,
    /// The kernel has the device, but its file in /dev/infiniband does not exist. This is usual in
    /// a container that was not given the file.
    Node {
        /// The file.
        path: PathBuf,
        /// The name of the device.
        device: String,
    },
    /// The device's file in /dev/infiniband has another device number than the kernel's device, or
    /// is not a device file. This is usual in a container that is older than the loaded driver.
    Stale {
        /// The file.
        path: PathBuf,
        /// The name of the device.
        device: String,
    },
    /// The process may not open the file (EACCES, or EPERM because of a control group).
    Forbidden {
        /// The file.
        path: PathBuf,
        /// The errno of open(2).
        errno: i32,
    },
    /// The device belongs to another network namespace, and the kernel does not share devices
    /// (`rdma system set netns exclusive`).
    Namespace {
        /// The name of the device.
        device: String,
    },
    /// libibverbs has no driver for the device.
    Provider {
        /// The name of the device.
        device: String,
    },
}

impl Absence {
    /// The errno that describes it.
    #[doc(hidden)]
    pub fn errno(&self) -> c_int {
        match self {
            Absence::Files { .. } => libc::EMFILE,
            Absence::Library { .. } => libc::ELIBACC,
            Absence::Node { .. } => libc::ENOENT,
            Absence::Forbidden { errno, .. } => *errno,
            Absence::Sysfs
            | Absence::Module { .. }
            | Absence::Device
            | Absence::Stale { .. }
            | Absence::Namespace { .. }
            | Absence::Provider { .. } => libc::ENODEV,
        }
    }
}

/// The hint about the software device, for programs built without it.
const WITHOUT_HARDWARE: &str = if cfg!(feature = "loopback") {
    ""
} else {
    "; for tests, the feature `loopback` of proverbs provides a software device in the process"
};

impl fmt::Display for Absence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Absence::Files { limit } => write!(
                f,
                "too many open files; this process may have {limit}: raise `ulimit -n`, or \
                 `LimitNOFILE=` of systemd"
            ),
            // Installing it does not help a program that cannot load it.
            Absence::Library { file, reason } if cfg!(target_feature = "crt-static") => {
                write!(f, "{file} cannot be loaded: {reason}{WITHOUT_HARDWARE}")
            }
            Absence::Library { file, reason } => {
                let (debian, fedora) = match *file {
                    "librdmacm.so.1" => ("librdmacm1", "librdmacm"),
                    _ => ("libibverbs1 ibverbs-providers", "libibverbs"),
                };
                write!(
                    f,
                    "{file} cannot be loaded ({reason}): run `apt install {debian}` (Debian, \
                     Ubuntu) or `dnf install {fedora}` (Fedora, RHEL){WITHOUT_HARDWARE}"
                )
            }
            Absence::Sysfs => f.write_str("/sys/class does not exist: mount sysfs at /sys"),
            Absence::Module { name } => {
                write!(f, "the kernel module {name} is not loaded: run `modprobe {name}` as root")?;
                f.write_str(WITHOUT_HARDWARE)
            }
            Absence::Device => {
                f.write_str(
                    "the kernel has no RDMA device: load the driver of the NIC, or run `rdma link \
                     add rxe0 type rxe netdev eth0` as root for a software device",
                )?;
                f.write_str(WITHOUT_HARDWARE)
            }
            Absence::Node { path, device } => write!(
                f,
                "the kernel has {device}, but {} does not exist: start the container with \
                 `--device=/dev/infiniband`, or check that udev runs",
                path.display()
            ),
            Absence::Stale { path, device } => write!(
                f,
                "{} is not the file of {device} (its device number differs): restart the \
                 container, or check that udev runs",
                path.display()
            ),
            Absence::Forbidden { path, errno: libc::EPERM } => write!(
                f,
                "a control group or a network namespace forbids {}: start the container with \
                 `--device=/dev/infiniband`, or run `rdma system set netns shared` as root",
                path.display()
            ),
            Absence::Forbidden { path, .. } => write!(
                f,
                "this user may not open {}: check its owner and mode (`ls -l`)",
                path.display()
            ),
            Absence::Namespace { device } => write!(
                f,
                "{device} belongs to another network namespace: run `rdma dev set {device} netns \
                 NAME` there, or `rdma system set netns shared`, as root"
            ),
            Absence::Provider { device } => write!(
                f,
                "libibverbs has no driver for {device}: run `apt install ibverbs-providers` \
                 (Debian, Ubuntu) or `dnf install libibverbs` (Fedora, RHEL)"
            ),
        }
    }
}
