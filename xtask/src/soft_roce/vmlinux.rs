//! The kernel proper, taken out of its compressed wrapping. QEMU starts it directly (PVH), which
//! under emulation saves the four seconds that the kernel needs to decompress itself.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::progress::Step;
use crate::sh::{self, Run, cmd};

/// The name of the plain kernel in a kernel's directory.
pub const NAME: &str = "vmlinux";

/// Compressions by how the payload begins. Others we leave to the kernel itself.
const TOOLS: [(&[u8], &str); 2] = [(b"\xfd7zXZ\0", "xz"), (b"\x28\xb5\x2f\xfd", "zstd")];

/// Writes `dir/vmlinux`, or nothing if this kernel does not lend itself to it.
pub fn extract(packed: &Path, dir: &Path) -> Result<()> {
    let _step = Step::start("Decompressing the kernel");
    let image = fs::read(packed).with_context(|| format!("cannot read {}", packed.display()))?;
    let payload = payload(&image).with_context(|| format!("in {}", packed.display()))?;
    let Some((_, tool)) = TOOLS.iter().find(|(magic, _)| payload.starts_with(magic)) else {
        return Ok(());
    };
    let compressed = dir.join("vmlinux.compressed");
    fs::write(&compressed, payload)?;
    let plain = cmd!(sh::here(), "{tool} -dcq {compressed}").bytes()?;
    fs::remove_file(&compressed)?;
    if can_start_directly(&plain) {
        fs::write(dir.join(NAME), plain)?;
    }
    Ok(())
}

/// The compressed kernel, by the boot protocol's header (Documentation/arch/x86/boot.rst).
fn payload(image: &[u8]) -> Result<&[u8]> {
    if image.get(0x202..0x206) != Some(b"HdrS") {
        bail!("this is not a Linux kernel image");
    }
    let setup_sectors = match image[0x1f1] {
        0 => 4,
        sectors => usize::from(sectors),
    };
    let start = (setup_sectors + 1) * 512 + word(image, 0x248)?;
    // Four bytes of uncompressed size follow the compressed stream and count as payload.
    let end = (start + word(image, 0x24c)?).saturating_sub(4);
    image.get(start..end).context("its payload lies outside of the file")
}

fn word(image: &[u8], offset: usize) -> Result<usize> {
    let bytes = image.get(offset..offset + 4).context("its header is cut short")?;
    let bytes: [u8; 4] = bytes.try_into().context("a word has four bytes")?;
    Ok(usize::try_from(u32::from_le_bytes(bytes))?)
}

/// Whether an ELF file of 64 bits has the note that names its PVH entry: owner "Xen", type 18.
fn can_start_directly(elf: &[u8]) -> bool {
    const NOTE: &[u8] = b"\x12\0\0\0Xen\0";
    // Notes begin at multiples of four.
    elf.starts_with(b"\x7fELF\x02\x01")
        && elf.chunks(4).zip(elf.chunks(4).skip(1)).any(|(a, b)| a == &NOTE[..4] && b == &NOTE[4..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payload_is_found_by_the_header() {
        let mut image = vec![0u8; 2048];
        image[0x1f1] = 1;
        image[0x202..0x206].copy_from_slice(b"HdrS");
        image[0x248..0x24c].copy_from_slice(&16u32.to_le_bytes());
        image[0x24c..0x250].copy_from_slice(&8u32.to_le_bytes());
        image[1040..1044].copy_from_slice(b"abcd");
        assert_eq!(payload(&image).expect("well formed"), b"abcd");
    }

    #[test]
    fn direct_start_needs_the_note() {
        let elf = |kind: u8| [b"\x7fELF\x02\x01..", &[kind, 0, 0, 0][..], b"Xen\0...."].concat();
        assert!(can_start_directly(&elf(0x12)));
        assert!(!can_start_directly(&elf(0x11)));
        assert!(!can_start_directly(b"\x7fELF"));
    }

    #[test]
    fn other_files_are_refused() {
        assert!(payload(b"#!/bin/sh").is_err());
        let mut cut = vec![0u8; 0x250];
        cut[0x202..0x206].copy_from_slice(b"HdrS");
        cut[0x24c] = 255;
        assert!(payload(&cut).is_err());
    }
}
