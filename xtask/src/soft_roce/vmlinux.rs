//! The kernel proper, taken out of its compressed wrapping. QEMU starts it directly (PVH), which
//! under emulation saves the four seconds that the kernel needs to decompress itself.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::progress::Step;
use crate::sh::Cmd;

/// The name of the plain kernel in a kernel's directory.
pub const NAME: &str = "vmlinux";

/// Compressions by how the payload begins. Others we leave to the kernel itself.
const TOOLS: [(&[u8], &[&str]); 2] =
    [(b"\xfd7zXZ\0", &["xz", "-dc"]), (b"\x28\xb5\x2f\xfd", &["zstd", "-dcq"])];

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
    let plain = Cmd::new(tool[0]).args(&tool[1..]).arg(&compressed).read()?;
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

/// Whether an ELF file has the note that names its PVH entry: owner "Xen", type 18.
fn can_start_directly(elf: &[u8]) -> bool {
    const NOTE: &[u8] = b"\x12\0\0\0Xen\0";
    notes(elf).is_some_and(|notes| notes.windows(NOTE.len()).any(|window| window == NOTE))
}

/// The note segment of a 64-bit ELF file.
fn notes(elf: &[u8]) -> Option<&[u8]> {
    const PT_NOTE: usize = 4;
    if !elf.starts_with(b"\x7fELF\x02\x01") {
        return None;
    }
    let field = |at: usize, size: usize| {
        let bytes = elf.get(at..at.checked_add(size)?)?;
        let number = bytes.iter().rev().fold(0u64, |number, &byte| number << 8 | u64::from(byte));
        usize::try_from(number).ok()
    };
    let (table, size, count) = (field(0x20, 8)?, field(0x36, 2)?, field(0x38, 2)?);
    (0..count).map(|index| table + index * size).find_map(|header| {
        let is_note = field(header, 4)? == PT_NOTE;
        let (start, length) = (field(header + 8, 8)?, field(header + 32, 8)?);
        if is_note { elf.get(start..start.checked_add(length)?) } else { None }
    })
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
        let mut elf = vec![0u8; 64 + 56];
        elf[..6].copy_from_slice(b"\x7fELF\x02\x01");
        elf[0x20] = 64;
        elf[0x36] = 56;
        elf[0x38] = 1;
        elf[64] = 4;
        elf[64 + 8] = 120;
        elf[64 + 32] = 20;
        elf.extend_from_slice(b"\x04\0\0\0\x08\0\0\0\x12\0\0\0Xen\0\0\0\0\0");
        assert!(can_start_directly(&elf));
        elf[120 + 8] = 0x11;
        assert!(!can_start_directly(&elf));
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
