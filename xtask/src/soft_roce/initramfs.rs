//! The guest's initramfs: busybox, the modules, and a script that mounts the host's root.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result, bail};

use super::kernel::Kernel;
use crate::sh::{self, Next, Run, cmd};

/// The modules that the guest loads, each after its dependencies. The guest's kernel loads other
/// modules (veth, sch_netem, virtio_net ...) on demand from the unpacked package.
const MODULES: [&str; 11] = [
    "virtio_pci",
    "virtio_rng",
    "virtio_console",
    "9pnet_virtio",
    "9p",
    "overlay",
    "dummy",
    "ib_uverbs",
    "ib_umad",
    "rdma_ucm",
    "rdma_rxe",
];

/// Older rxe requests "crc32" from the crypto layer by name, without declaring a dependency.
/// Without this module, `rdma link add` fails with "No such file or directory". Newer kernels do
/// not have it.
const IF_THERE: &str = "crc32_generic";

const BUSYBOX: &str = "/bin/busybox";
const INIT: &str = include_str!("init.sh");

/// Writes the initramfs for a kernel.
pub fn write(kernel: &Kernel, path: &Path) -> Result<()> {
    let mut archive = Vec::new();
    for directory in ["bin", "modules", "proc", "host", "over", "overlay", "root"] {
        entry(&mut archive, directory, 0o040_755, &[])?;
    }
    let busybox = fs::read(BUSYBOX)
        .with_context(|| format!("cannot read {BUSYBOX}.\nNext: apt-get install busybox-static"))?;
    entry(&mut archive, "bin/busybox", 0o100_755, &busybox)?;
    entry(&mut archive, "init", 0o100_755, INIT.as_bytes())?;

    let mut order = String::new();
    let mut seen = BTreeSet::new();
    let first = dependencies(kernel, IF_THERE).unwrap_or_default();
    let others = MODULES.map(|module| dependencies(kernel, module));
    for files in [Ok(first)].into_iter().chain(others) {
        for file in files? {
            let (name, content) = load(&file)?;
            if seen.insert(name.clone()) {
                // In some kernels it would create a device by itself, and in others not.
                let parameters = if name == "dummy" { "numdummies=0" } else { "" };
                order.push_str(&format!("{name} {parameters}\n"));
                entry(&mut archive, &format!("modules/{name}.ko"), 0o100_644, &content)?;
            }
        }
    }
    entry(&mut archive, "modules/order", 0o100_644, order.as_bytes())?;
    cpio::newc::trailer(&mut archive)?;
    fs::write(path, archive).with_context(|| format!("cannot write {}", path.display()))
}

/// Adds a directory or a file, without creating a directory tree first as for cpio(1).
fn entry(archive: &mut Vec<u8>, path: &str, mode: u32, content: &[u8]) -> Result<()> {
    let entry = cpio::newc::Builder::new(path).mode(mode);
    let mut writer = entry.write(archive, u32::try_from(content.len())?);
    writer.write_all(content)?;
    writer.finish()?;
    Ok(())
}

/// The files to load for a module, with its own file last. Empty if it is built in.
fn dependencies(kernel: &Kernel, module: &str) -> Result<Vec<String>> {
    let Kernel { root, release, .. } = kernel;
    // The host's own /etc/modprobe.d does not apply to the guest.
    let list =
        cmd!(sh::here(), "modprobe -C /dev/null -d {root} -S {release} -D {module}").text().next(
            "the cached kernel may be incomplete: remove target/soft-roce/kernel and try again",
        )?;
    let mut files = Vec::new();
    for line in list.lines() {
        match line.trim().split_once(' ') {
            Some(("insmod", file)) => files.push(file.trim().to_owned()),
            Some(("builtin", _)) => {}
            _ => bail!("modprobe -D {module} said: {line}"),
        }
    }
    Ok(files)
}

/// A module's name and its decompressed content, because busybox's insmod does not decompress.
fn load(file: &str) -> Result<(String, Vec<u8>)> {
    let path = Path::new(file);
    let base = path.file_name().and_then(|name| name.to_str()).context("a module has a name")?;
    let (name, compression) =
        base.split_once(".ko").with_context(|| format!("{file} is not a module"))?;
    let content = match compression {
        "" => fs::read(path).with_context(|| format!("cannot read {file}"))?,
        ".xz" => cmd!(sh::here(), "xz -dc {file}").bytes()?,
        ".zst" => cmd!(sh::here(), "zstd -dcq {file}").bytes()?,
        ".gz" => cmd!(sh::here(), "gzip -dc {file}").bytes()?,
        other => bail!("{file}: do not know how to decompress {other}"),
    };
    Ok((name.replace('-', "_"), content))
}
