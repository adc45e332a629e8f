//! An initramfs archive ("newc", Documentation/driver-api/early-userspace/buffer-format.rst).
//! Written here because archives made with cpio(1) need a directory tree first, and root for nodes.

/// An archive in memory.
#[derive(Default)]
pub struct Archive {
    bytes: Vec<u8>,
    inode: u32,
}

impl Archive {
    pub fn directory(&mut self, path: &str) {
        self.entry(path, 0o040_755, &[]);
    }

    pub fn file(&mut self, path: &str, executable: bool, content: &[u8]) {
        self.entry(path, if executable { 0o100_755 } else { 0o100_644 }, content);
    }

    /// The archive with its trailer.
    pub fn finish(mut self) -> Vec<u8> {
        self.entry("TRAILER!!!", 0, &[]);
        self.bytes
    }

    fn entry(&mut self, path: &str, mode: u32, content: &[u8]) {
        self.inode += 1;
        let size = u32::try_from(content.len()).expect("a file of an initramfs is below 4 GB");
        let name_size = u32::try_from(path.len() + 1).expect("a path is short");
        // ino mode uid gid nlink mtime filesize devmajor devminor rdevmajor rdevminor namesize check
        let fields = [self.inode, mode, 0, 0, 1, 0, size, 0, 0, 0, 0, name_size, 0];
        self.bytes.extend_from_slice(b"070701");
        for field in fields {
            self.bytes.extend_from_slice(format!("{field:08x}").as_bytes());
        }
        self.bytes.extend_from_slice(path.as_bytes());
        self.bytes.push(0);
        self.align();
        self.bytes.extend_from_slice(content);
        self.align();
    }

    /// Names and contents start at multiples of four.
    fn align(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::Archive;

    #[test]
    fn entries_are_aligned_and_named() {
        let mut archive = Archive::default();
        archive.directory("bin");
        archive.file("init", true, b"#!");
        let bytes = archive.finish();
        assert_eq!(bytes.len() % 4, 0);
        let text = String::from_utf8(bytes).expect("only ASCII went in");
        assert!(text.starts_with("07070100000001000041ed"), "{text}");
        assert!(text.contains("0000000500000000init\0"), "{text}");
        assert_eq!(text.matches("070701").count(), 3);
        assert!(text.ends_with("TRAILER!!!\0\0\0\0"), "{text}");
    }
}
