//! siw, the iWARP device of Linux, which Debian's kernels do not include. It is built from Debian's
//! source of the guest's kernel, with that kernel's headers, and is not installed.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::kernel::{self, Kernel};
use crate::apt;
use crate::paths;
use crate::setup::{self, Group};
use crate::sh::{self, Next, Run, cmd};

/// The driver of a guest's RDMA device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Driver {
    /// Soft-RoCE: rxe0.
    #[default]
    Rxe,
    /// iWARP: siw0, built from Debian's source of the guest's kernel.
    Siw,
}

/// Its path in the kernel's source.
const SOURCE: &str = "drivers/infiniband/sw/siw";

/// The module for this kernel, built if it is missing.
pub fn module(kernel: &Kernel) -> Result<PathBuf> {
    let Kernel { release, root, .. } = kernel;
    let place = paths::below_target("soft-roce/siw")?.join(release);
    apt::once(&place, |work, root| build(release, work, root)).next(format!(
        "if the archive has no headers of Linux {release} any more, remove {}, so that its newest \
         kernel is fetched",
        root.display()
    ))?;
    Ok(place.join("siw.ko"))
}

/// Builds it in `work`, and leaves it in `root`.
fn build(release: &str, work: &Path, root: &Path) -> Result<()> {
    setup::ensure(&[Group::Module])?;
    let headers = format!("linux-headers-{release}");
    let lists = kernel::debian()?;
    let (version, needs) = lists.about(&headers)?;
    // The scripts and the headers of all flavours. The compiler comes from the host.
    let needs = |prefix: &str| needs.iter().find(|name| name.starts_with(prefix)).cloned();
    let common = needs("linux-headers-").context("no dependency on linux-headers-*-common")?;
    let kbuild = needs("linux-kbuild-").context("headers depend on scripts")?;
    let series: Vec<&str> = release.splitn(3, '.').take(2).collect();
    let source = format!("linux-source-{}", series.join("."));
    // Of a package without the release in its name, such as the source, the archive may only have
    // the next Debian revision.
    let upstream = version.rsplit_once('-').map_or(&*version, |(upstream, _)| upstream);
    let packages = [&headers, &common, &kbuild, &source].map(|name| format!("{name}={upstream}*"));
    let unpacked = work.join("unpacked");
    lists.unpack(&[&packages[..], &["libc6/sid".to_owned()]].concat(), work, &unpacked)?;

    let src = unpacked.join("usr/src");
    let tar = src.join(format!("{source}.tar.xz"));
    let inside = format!("{source}/{SOURCE}");
    cmd!(sh::here(), "tar -C {work} -xf {tar} {inside}").step("Unpacking siw's source")?;
    let (tree, module) = (src.join(&headers), work.join(inside));
    // A kernel from a newer Debian has programs that need a newer C library, and options of a newer
    // gcc and pahole, which are off.
    let libc = unpacked.join("usr/lib/x86_64-linux-gnu");
    let run = "for file in tools/objtool/*.real-* scripts/mod/*.real-*; do [ ! -e $file ] || patchelf \
               --set-interpreter $0/ld-linux-x86-64.so.2 --set-rpath $0:/lib/x86_64-linux-gnu $file; done";
    cmd!(sh::at(&tree), "sh -c {run} {libc}").run()?;
    // The tree's own Makefile names the installed location of the other headers. These packages do
    // not contain the kernel's debugging information, so none is generated for the module.
    let makefile = src.join(common).join("Makefile");
    let off = "CONFIG_CC_HAS_MIN_FUNCTION_ALIGNMENT= CONFIG_DEBUG_INFO_BTF_MODULES=".split(' ');
    let make = cmd!(sh::here(), "make -C {tree} -f {makefile} M={module} CC=gcc CONFIG_RDMA_SIW=m");
    make.args(off).arg("modules").step("Building siw")?;
    let built = module.join("siw.ko");
    std::fs::copy(&built, root.join("siw.ko"))
        .with_context(|| format!("cannot copy {}", built.display()))?;
    Ok(())
}
