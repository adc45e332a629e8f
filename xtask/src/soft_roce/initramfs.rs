//! The first thing the guest runs: busybox, the modules, and a script that mounts the host's root.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

use super::cpio::Archive;
use super::kernel::Kernel;
use crate::sh::Cmd;

/// What the guest loads, each after what it needs. Anything else (veth, sch_netem, virtio_net ...)
/// the guest's kernel loads on demand from the unpacked package.
/// rxe asks the crypto layer for "crc32" by name, which no dependency tells: without crc32_generic,
/// `rdma link add` fails with "No such file or directory".
const MODULES: [&str; 12] = [
    "virtio_pci",
    "virtio_rng",
    "virtio_console",
    "9pnet_virtio",
    "9p",
    "overlay",
    "dummy",
    "crc32_generic",
    "ib_uverbs",
    "ib_umad",
    "rdma_ucm",
    "rdma_rxe",
];

/// Parameters: dummy would make a device on its own in some kernels and none in others.
const PARAMETERS: [(&str, &str); 1] = [("dummy", "numdummies=0")];

const BUSYBOX: &str = "/bin/busybox";
const INIT: &str = include_str!("init.sh");

/// Writes the initramfs for a kernel.
pub fn write(kernel: &Kernel, path: &Path) -> Result<()> {
    let mut archive = Archive::default();
    for directory in ["bin", "modules", "proc", "host", "overlay", "root"] {
        archive.directory(directory);
    }
    let busybox = fs::read(BUSYBOX)
        .with_context(|| format!("cannot read {BUSYBOX}.\nNext: apt-get install busybox-static"))?;
    archive.file("bin/busybox", true, &busybox);
    archive.file("init", true, INIT.as_bytes());

    let mut order = String::new();
    let mut seen = BTreeSet::new();
    for module in MODULES {
        for file in dependencies(kernel, module)? {
            let (name, content) = load(&file)?;
            if seen.insert(name.clone()) {
                let parameters = PARAMETERS.iter().find(|(module, _)| *module == name);
                let parameters = parameters.map_or("", |(_, parameters)| parameters);
                order.push_str(&format!("{name} {parameters}\n"));
                archive.file(&format!("modules/{name}.ko"), false, &content);
            }
        }
    }
    archive.file("modules/order", false, order.as_bytes());
    fs::write(path, archive.finish()).with_context(|| format!("cannot write {}", path.display()))
}

/// The files to load for a module, its own last. Empty when it is built in.
fn dependencies(kernel: &Kernel, module: &str) -> Result<Vec<String>> {
    let list = Cmd::new("modprobe")
        // The host's own /etc/modprobe.d has no say in the guest.
        .args(["-C", "/dev/null", "-d"])
        .arg(&kernel.root)
        .args(["-S", &kernel.release, "--show-depends", module])
        .hint("is the cached kernel whole? Remove target/soft-roce/kernel and try again")
        .read_text()?;
    let mut files = Vec::new();
    for line in list.lines() {
        match line.trim().split_once(' ') {
            Some(("insmod", file)) => files.push(file.trim().to_owned()),
            Some(("builtin", _)) => {}
            _ => bail!("modprobe --show-depends {module} said: {line}"),
        }
    }
    Ok(files)
}

/// A module's name and its plain content: busybox's insmod does not decompress.
fn load(file: &str) -> Result<(String, Vec<u8>)> {
    let path = Path::new(file);
    let base = path.file_name().and_then(|name| name.to_str()).context("a module has a name")?;
    let (name, compression) =
        base.split_once(".ko").with_context(|| format!("{file} is not a module"))?;
    let content = match compression {
        "" => fs::read(path).with_context(|| format!("cannot read {file}"))?,
        ".xz" => Cmd::new("xz").args(["-dc", file]).hint("apt-get install xz-utils").read()?,
        ".zst" => Cmd::new("zstd").args(["-dcq", file]).hint("apt-get install zstd").read()?,
        ".gz" => Cmd::new("gzip").args(["-dc", file]).read()?,
        other => bail!("{file}: do not know how to decompress {other}"),
    };
    Ok((name.replace('-', "_"), content))
}
