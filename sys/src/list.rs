//! The devices of this machine, with the properties by which a program chooses one. They are read
//! from sysfs, so no device is opened.

use std::fs;
use std::net::IpAddr;
use std::path::Path;

use crate::absence::{self, Wanted};
use crate::attr::port::{LinkLayer, PortState};
use crate::device;
use crate::interfaces::{Interface, interfaces};
use crate::terms::absence::Absence;
use crate::terms::error::{Error, ErrorKind};
use crate::terms::gid::Gid;

const VERB: &str = "ibv_get_device_list";

/// The RDMA devices of this machine (`ibv_get_device_list`), in libibverbs's order; empty if the
/// kernel has none.
///
/// [Blocks] while a device does not answer.
///
/// ```
/// # use proverbs::prelude::*;
/// for device in devices()? {
///     println!("{} on NUMA node {:?}", device.name, device.numa_node);
///     for port in &device.ports {
///         println!("  port {}: {:?} Mbit/s", port.number, port.speed);
///     }
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`ErrorKind::Absent`] if libibverbs cannot be loaded, or if the kernel has devices that this
/// process cannot use, such as in a container without their files. Otherwise [`ErrorKind::Os`] with
/// the errno of `ibv_get_device_list`.
///
/// [Blocks]: https://docs.rs/proverbs/latest/proverbs/guide/shutdown/index.html
#[doc(alias("ibv_get_device_list", "ibv_free_device_list", "rdma_get_devices"))]
#[doc(alias = "rdma_free_devices")]
pub fn devices() -> Result<Vec<Device>, Error> {
    let names = names()?;
    // Without a list of interfaces, ports have none.
    let sysfs = Sysfs { root: Path::new("/sys"), interfaces: interfaces().unwrap_or_default() };
    Ok(names.into_iter().map(|name| sysfs.device(name)).collect())
}

/// The names of the devices.
pub fn names() -> Result<Vec<String>, Error> {
    let errno = match device::names() {
        Ok(names) if !names.is_empty() => return Ok(names),
        Ok(_) => 0,
        Err(errno) => errno,
    };
    match absence::why(Wanted::Any, errno) {
        Some(Absence::Device | Absence::Module { .. } | Absence::Sysfs) => Ok(Vec::new()),
        Some(absence) => Err(Error::new(VERB, ErrorKind::Absent(absence))),
        // libibverbs fails with ENOSYS on a kernel without RDMA.
        None if matches!(errno, 0 | libc::ENOSYS) => Ok(Vec::new()),
        None => Err(Error::os(VERB, errno, "")),
    }
}

/// A device of this machine that is not open (`struct ibv_device`), from [`devices`].
///
/// A program chooses one by its IP address, its network interface or its NUMA node:
///
/// ```no_run
/// # use proverbs::prelude::*;
/// use proverbs::device::Device;
/// let (device, port) = Device::by_ip([10, 0, 0, 1].into())?;
/// let context = Context::open(&device.name)?;
/// let gid = context.roce_v2_gid(port.number)?;
///
/// let (device, port) = Device::by_interface("eth0")?;
///
/// // The NUMA node of this thread's memory:
/// let nearest = Device::nearest_to(0)?.into_iter().next();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Device {
    /// Its name, for [`Context::open`].
    ///
    /// [`Context::open`]: https://docs.rs/proverbs/latest/proverbs/struct.Context.html#method.open
    #[doc(alias = "ibv_get_device_name")]
    pub name: String,
    /// Its address on the PCI bus, such as `0000:3b:00.0`; `None` for a software device.
    pub pci_address: Option<String>,
    /// Its NUMA node; for a software device, the node of its network interface. `None` if the
    /// machine has no NUMA nodes, or does not report it.
    pub numa_node: Option<u32>,
    /// Its ports.
    pub ports: Vec<DevicePort>,
}

/// A port of a [`Device`], as sysfs shows it. [`query_port`] of an open device returns more.
///
/// [`query_port`]: https://docs.rs/proverbs/latest/proverbs/struct.Context.html#method.query_port
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DevicePort {
    /// Its number, from 1 on.
    pub number: u8,
    /// InfiniBand or Ethernet.
    pub link_layer: LinkLayer,
    /// The state of the link.
    pub state: PortState,
    /// Mbit/s, if known.
    pub speed: Option<u32>,
    /// Its network interfaces in this process's network namespace, such as eth0 and a VLAN on it,
    /// or ib0. Interfaces of another namespace are absent.
    pub interfaces: Vec<String>,
    /// The IP addresses of these interfaces.
    pub addresses: Vec<IpAddr>,
}

impl Device {
    /// The device and the port that have `address`, an IP address of this machine. If several
    /// devices have the address, such as two software devices on one interface, returns the first
    /// of [`devices`].
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] with the existing addresses; others as for [`devices`].
    pub fn by_ip(address: IpAddr) -> Result<(Device, DevicePort), Error> {
        let has = |port: &DevicePort| port.addresses.contains(&address);
        find(devices()?, has, || format!("the IP address {address}"))
    }

    /// The device that belongs to a network interface, with the port. If there are several, returns
    /// the first of [`devices`].
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] with the existing interfaces; others as for [`devices`].
    pub fn by_interface(name: &str) -> Result<(Device, DevicePort), Error> {
        let has = |port: &DevicePort| port.interfaces.iter().any(|interface| interface == name);
        find(devices()?, has, || format!("the network interface {name}"))
    }

    /// All devices, the nearest to a NUMA node first, by the distances that the firmware reports.
    /// Devices with an unknown node come last.
    ///
    /// # Errors
    /// As for [`devices`].
    pub fn nearest_to(numa_node: u32) -> Result<Vec<Device>, Error> {
        let mut devices = devices()?;
        sort_by_distance(&mut devices, Path::new("/sys"), numa_node);
        Ok(devices)
    }
}

fn find(
    devices: Vec<Device>,
    is_wanted: impl Fn(&DevicePort) -> bool,
    what: impl FnOnce() -> String,
) -> Result<(Device, DevicePort), Error> {
    let all = || devices.iter().flat_map(|device| device.ports.iter().map(move |p| (device, p)));
    if let Some((device, port)) = all().find(|(_, port)| is_wanted(port)) {
        return Ok((device.clone(), port.clone()));
    }
    let there = all().map(|(device, port)| {
        let addresses = port.addresses.iter().map(IpAddr::to_string);
        let has: Vec<_> = port.interfaces.iter().cloned().chain(addresses).collect();
        let has = if has.is_empty() { "no interface here".into() } else { has.join(", ") };
        format!("{} port {} ({has})", device.name, port.number)
    });
    let there: Vec<_> = there.collect();
    let there = if there.is_empty() { "none".into() } else { there.join("; ") };
    let what = format!("no device has {}; devices of this machine: {there}", what());
    Err(Error::new(VERB, ErrorKind::NotFound(what)))
}

fn sort_by_distance(devices: &mut [Device], sysfs: &Path, node: u32) {
    let distances = read(&sysfs.join(format!("devices/system/node/node{node}/distance")));
    let distances: Vec<u32> =
        distances.iter().flat_map(|line| line.split(' ')).flat_map(str::parse).collect();
    devices.sort_by_key(|device| match device.numa_node {
        Some(its) if its == node => 0,
        Some(its) => distances.get(its as usize).copied().unwrap_or(u32::MAX - 1),
        None => u32::MAX,
    });
}

/// The line of a file, or `None`.
fn read(path: &Path) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.trim().to_owned())
}

/// The directory in which the kernel shows devices, and the interfaces of this network namespace.
struct Sysfs<'a> {
    root: &'a Path,
    interfaces: Vec<Interface>,
}

impl Sysfs<'_> {
    fn device(&self, name: String) -> Device {
        let path = self.root.join("class/infiniband").join(&name);
        let mut numbers: Vec<u8> = entries(&path.join("ports"));
        numbers.sort();
        let ports = numbers.into_iter();
        let ports: Vec<_> = ports.map(|number| self.port(&path, number)).collect();
        let bus = fs::canonicalize(path.join("device")).ok();
        let pci_address = bus.as_deref().and_then(pci_address);
        let interface = ports.iter().flat_map(|port| &port.interfaces).next();
        let numa_node = bus.as_deref().map_or_else(
            || {
                let interface = self.root.join("class/net").join(interface?).join("device");
                numa_node(&fs::canonicalize(interface).ok()?)
            },
            numa_node,
        );
        Device { name, pci_address, numa_node, ports }
    }

    fn port(&self, device: &Path, number: u8) -> DevicePort {
        let path = device.join("ports").join(number.to_string());
        let gids: Vec<(u32, Gid)> = entries(&path.join("gids"))
            .into_iter()
            .filter_map(|index: u32| Some((index, read(&path.join(format!("gids/{index}")))?)))
            .filter_map(|(index, gid)| Some((index, gid.parse().ok()?)))
            .filter(|(_, gid): &(u32, Gid)| !gid.is_zero())
            .collect();
        // The kernel gives the name of a GID's interface in the device's namespace. Another
        // interface may have the name here, so the GID must match too.
        let named = |index| read(&path.join(format!("gid_attrs/ndevs/{index}")));
        let belongs = |interface: &&Interface| {
            let fits = |&&(_, gid): &&(u32, Gid)| interface.has(gid);
            gids.iter().filter(fits).any(|&(index, _)| {
                named(index).is_none_or(|name| name.is_empty() || name == interface.name)
            })
        };
        let interfaces: Vec<_> = self.interfaces.iter().filter(belongs).collect();
        let code = |file| {
            let line = read(&path.join(file))?;
            line.split([':', ' ']).next()?.parse::<f64>().ok()
        };
        let link_layer = match read(&path.join("link_layer")).as_deref() {
            Some("InfiniBand") => LinkLayer::InfiniBand,
            Some("Ethernet") => LinkLayer::Ethernet,
            _ => LinkLayer::Unknown,
        };
        DevicePort {
            number,
            link_layer,
            state: PortState::from_c(code("state").unwrap_or_default() as u32),
            speed: code("rate").map(|gbit| (gbit * 1000.0) as u32),
            interfaces: interfaces.iter().map(|interface| interface.name.clone()).collect(),
            addresses: interfaces
                .iter()
                .flat_map(|interface| interface.addresses.clone())
                .collect(),
        }
    }
}

/// The entries of a directory whose names are numbers.
fn entries<T: std::str::FromStr>(path: &Path) -> Vec<T> {
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// The last part of the path of a PCI function, such as `0000:3b:00.0`.
fn pci_address(bus: &Path) -> Option<String> {
    let name = bus.file_name()?.to_str()?;
    let parts: Vec<_> = name.split([':', '.']).collect();
    let is_hex = |part: &&str| u32::from_str_radix(part, 16).is_ok();
    (parts.len() == 4 && parts.iter().all(is_hex)).then(|| name.to_owned())
}

/// The NUMA node of a device, or of its parent.
fn numa_node(bus: &Path) -> Option<u32> {
    let line = bus.ancestors().find_map(|path| read(&path.join("numa_node")))?;
    line.parse().ok() // -1 means no node
}

#[cfg(test)]
#[cfg(not(miri))] // makes files
mod tests {
    use std::path::PathBuf;

    use super::*;

    /// The last part of a path is an address only if all four of its parts are hexadecimal.
    #[test]
    fn an_address_of_the_pci_bus_has_four_numbers() {
        let of = |path: &str| pci_address(Path::new(path));
        assert_eq!(of("/sys/devices/pci0000:3b/0000:3f:00.0").as_deref(), Some("0000:3f:00.0"));
        for other in ["0000:3b:00", "0000:3b:00.0.1", "0000:3g:00.0", "rxe:0:0.0", "virtual", "/"] {
            assert_eq!(of(other), None, "{other}");
        }
    }

    /// A sysfs for the test.
    struct Tree(PathBuf);

    impl Tree {
        fn new(name: &str) -> Tree {
            let root = std::env::temp_dir().join(format!("devices-{name}-{}", std::process::id()));
            _ = fs::remove_dir_all(&root);
            Tree(root)
        }

        fn write(&self, file: &str, text: &str) {
            let file = self.0.join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, format!("{text}\n")).unwrap();
        }

        /// A port with GIDs, each with the name of its interface.
        fn port(&self, port: &str, link_layer: &str, rate: &str, gids: &[(&str, &str)]) {
            let port = format!("class/infiniband/{port}");
            self.write(&format!("{port}/link_layer"), link_layer);
            self.write(&format!("{port}/state"), "4: ACTIVE");
            self.write(&format!("{port}/rate"), rate);
            for (index, (gid, interface)) in gids.iter().enumerate() {
                let gid: std::net::Ipv6Addr = gid.parse().unwrap();
                let text: Vec<_> = gid.segments().iter().map(|s| format!("{s:04x}")).collect();
                self.write(&format!("{port}/gids/{index}"), &text.join(":"));
                self.write(&format!("{port}/gid_attrs/ndevs/{index}"), interface);
            }
        }

        fn is_on(&self, device: &str, bus: &str, numa_node: &str) {
            self.write(&format!("devices/{bus}/numa_node"), numa_node);
            let link = self.0.join(device).join("device");
            fs::create_dir_all(link.parent().unwrap()).unwrap();
            std::os::unix::fs::symlink(self.0.join("devices").join(bus), link).unwrap();
        }

        fn devices(&self, names: &[&str], interfaces: &[Interface]) -> Vec<Device> {
            let sysfs = Sysfs { root: &self.0, interfaces: interfaces.to_vec() };
            names.iter().map(|name| sysfs.device(name.to_string())).collect()
        }
    }

    impl Drop for Tree {
        fn drop(&mut self) {
            _ = fs::remove_dir_all(&self.0);
        }
    }

    fn interface(name: &str, hardware: &[u8], addresses: &[&str]) -> Interface {
        let addresses = addresses.iter().map(|address| address.parse().unwrap()).collect();
        Interface { name: name.into(), addresses, hardware: hardware.to_vec() }
    }

    const MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
    const OF_MAC: &str = "fe80::ff:fe00:1";

    #[test]
    fn a_device_has_the_properties_it_is_chosen_by() {
        let tree = Tree::new("roce");
        let vlan = ("::ffff:10.1.0.1", "eth0.5");
        let gids = [(OF_MAC, "eth0"), ("::ffff:10.0.0.1", "eth0"), (OF_MAC, "eth0.5"), vlan];
        tree.port("mlx5_0/ports/1", "Ethernet", "100 Gb/sec (4X EDR)", &[gids[0]]);
        tree.port("mlx5_0/ports/2", "Ethernet", "2.5 Gb/sec (1X SDR)", &gids[..]);
        tree.is_on("class/infiniband/mlx5_0", "pci0000:3a/0000:3b:00.0", "1");
        let eth0 = interface("eth0", &MAC, &["10.0.0.1", "fd00::1"]);
        let eth1 = interface("eth1", &MAC, &["10.0.0.2"]); // with the same MAC, as in a bond
        let vlan = interface("eth0.5", &MAC, &["10.1.0.1"]);
        let [device] = &tree.devices(&["mlx5_0"], &[eth0, eth1, vlan])[..] else { panic!() };
        assert_eq!(device.pci_address.as_deref(), Some("0000:3b:00.0"));
        assert_eq!((device.numa_node, device.ports.len()), (Some(1), 2));
        let port = &device.ports[1];
        assert_eq!((port.number, port.state, port.speed), (2, PortState::Active, Some(2500)));
        assert_eq!((device.ports[0].speed, port.link_layer), (Some(100_000), LinkLayer::Ethernet));
        assert_eq!(port.interfaces, ["eth0", "eth0.5"]);
        let addresses: Vec<_> = port.addresses.iter().map(IpAddr::to_string).collect();
        assert_eq!(addresses, ["10.0.0.1", "fd00::1", "10.1.0.1"]);
        assert_eq!(device.ports[0].interfaces, ["eth0"]);
    }

    /// sysfs has the names of the device's namespace.
    #[test]
    fn an_interface_of_another_namespace_is_not_reported() {
        let tree = Tree::new("namespace");
        let gids = [(OF_MAC, "eth0"), ("::ffff:10.0.0.1", "eth0")];
        tree.port("rxe0/ports/1", "Ethernet", "2.5 Gb/sec", &gids);
        let other = interface("eth0", &[2, 0, 0, 0, 0, 2], &["10.0.0.2"]);
        let there = |interfaces: &[Interface]| {
            let device = tree.devices(&["rxe0"], interfaces).remove(0);
            device.ports.into_iter().flat_map(|port| port.interfaces).collect::<Vec<_>>()
        };
        assert_eq!((there(&[other]), there(&[])), (vec![], vec![]));
        assert_eq!(there(&[interface("eth0", &MAC, &[])]), ["eth0"]);
        let by_its_address = interface("eth0", &[2, 0, 0, 0, 0, 3], &["10.0.0.1"]);
        assert_eq!(there(&[by_its_address]), ["eth0"]);
    }

    #[test]
    fn infiniband_and_iwarp_have_interfaces_too() {
        let tree = Tree::new("others");
        let guid = "fe80::2:c903:0:1234";
        tree.port("mlx4_0/ports/1", "InfiniBand", "56 Gb/sec (4X FDR)", &[(guid, "")]);
        tree.port("siw0/ports/1", "Ethernet", "2.5 Gb/sec", &[("200:0:1::", "")]);
        let hardware = [&[0x80, 0, 0, 0x48][..], &guid.parse::<Gid>().unwrap().0].concat();
        let interfaces = [interface("ib0", &hardware, &["10.2.0.1"]), interface("eth0", &MAC, &[])];
        tree.is_on("class/net/eth0", "pci0000:00/0000:00:03.0/virtio1", "0");
        let devices = tree.devices(&["mlx4_0", "siw0"], &interfaces);
        assert_eq!(devices[0].ports[0].interfaces, ["ib0"]);
        assert_eq!(devices[0].ports[0].link_layer, LinkLayer::InfiniBand);
        assert_eq!(devices[1].ports[0].interfaces, ["eth0"]);
        assert_eq!((&devices[1].pci_address, devices[1].numa_node), (&None, Some(0)));
        // A device that sysfs does not show.
        let absent = &tree.devices(&["gone"], &interfaces)[0];
        assert_eq!((absent.ports.len(), &absent.pci_address, absent.numa_node), (0, &None, None));
    }

    #[test]
    fn devices_are_found() {
        let tree = Tree::new("find");
        for (name, node) in [("a0", "-1"), ("b0", "0"), ("c0", "1"), ("d0", "2")] {
            tree.port(&format!("{name}/ports/1"), "Ethernet", "100 Gb/sec", &[(OF_MAC, "eth0")]);
            tree.is_on(&format!("class/infiniband/{name}"), &format!("pci0000:00/{name}"), node);
        }
        tree.write("devices/system/node/node2/distance", "20 30 10");
        let eth0 = interface("eth0", &MAC, &["10.0.0.1"]);
        let mut devices = tree.devices(&["a0", "b0", "c0", "d0"], &[eth0]);
        let by_ip = |address: &str| {
            let address: IpAddr = address.parse().unwrap();
            let has = |port: &DevicePort| port.addresses.contains(&address);
            find(devices[..2].to_vec(), has, || format!("the IP address {address}"))
        };
        let (device, port) = by_ip("10.0.0.1").unwrap();
        assert_eq!((&device.name[..], port.number), ("a0", 1));
        assert_eq!(
            by_ip("10.0.0.9").unwrap_err().to_string(),
            "ibv_get_device_list: no device has the IP address 10.0.0.9; devices of this machine: \
             a0 port 1 (eth0, 10.0.0.1); b0 port 1 (eth0, 10.0.0.1)"
        );
        let none = find(Vec::new(), |_| true, || "the network interface eth0".into());
        assert!(none.unwrap_err().to_string().ends_with("devices of this machine: none"));
        let mut nearest = |node| {
            sort_by_distance(&mut devices, &tree.0, node);
            devices.iter().map(|device| &device.name[..1]).collect::<String>()
        };
        assert_eq!((nearest(2), nearest(1)), ("dbca".into(), "cdba".into()));
    }
}
