//! QEMU's command line, and a QEMU that never outlives us.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, parent_id};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};

use anyhow::{Context, Result};

use super::accel::Accel;
use crate::sh::quote;

const QEMU: &str = "qemu-system-x86_64";

/// panic=-1 with -no-reboot makes QEMU exit when the kernel panics. An oops is treated the same,
/// because the stack under test is then in an unknown state. The guest has only one user, so
/// mitigations would only cost time. On a busy host an emulated processor may stand still for long,
/// which is not a lockup. Measuring the jitter of its clock, which is not needed, would take
/// minutes.
const KERNEL_ARGUMENTS: &str = "console=ttyS0 no_timer_check loglevel=5 panic=-1 oops=panic \
                                random.trust_cpu=on mitigations=off cryptomgr.notests nowatchdog \
                                initcall_blacklist=jent_mod_init";

/// One page of 1 GiB on each of two nodes, and 16 of 2 MiB. A kernel at a random address may lie in
/// the only whole GiB of its node.
const HUGE_PAGES: &str =
    "nokaslr hugepagesz=1G hugepages=0:1,1:1 hugepagesz=2M hugepages=0:16,1:16";

/// Tells the guest to mount a directory over the host's root.
const OVER: &str = "soft_roce.over";

/// A machine whose command line is being built.
pub struct Machine {
    command: Command,
    /// The child's ends of the sockets, by their number in both processes.
    inherited: Vec<OwnedFd>,
    /// More arguments of the kernel.
    arguments: Vec<&'static str>,
}

impl Machine {
    /// A machine with a serial console, which is written to a file, and without QEMU's other
    /// default devices.
    pub fn new(
        accel: Accel,
        memory_mb: u32,
        image: &Path,
        initramfs: &Path,
        console: &Path,
    ) -> Self {
        let command = Command::new(QEMU);
        let mut machine = Self { command, inherited: Vec::new(), arguments: Vec::new() };
        machine.args("-nodefaults -no-user-config -smp 2 -display none -no-reboot -machine pc");
        machine.args(accel.arguments());
        machine.command.args(["-m", &memory_mb.to_string()]);
        machine.command.arg("-kernel").arg(image).arg("-initrd").arg(initramfs);
        let mut file = OsString::from("file,id=console,path=");
        file.push(escaped(console.as_os_str()));
        machine.command.arg("-chardev").arg(file);
        machine.args("-serial chardev:console -device virtio-rng-pci -device virtio-serial-pci");
        machine.command.stdin(Stdio::null()).stdout(Stdio::null());
        machine
    }

    /// Halves the memory between two NUMA nodes, each with a processor and with huge pages.
    pub fn nodes(&mut self, memory_mb: u32) {
        for node in 0..2 {
            let half = memory_mb / 2;
            self.args(&format!("-object memory-backend-ram,id=ram{node},size={half}M"));
            self.args(&format!("-numa node,nodeid={node},memdev=ram{node},cpus={node}"));
        }
        self.arguments.push(HUGE_PAGES);
    }

    /// Shares a directory that is mounted over the host's root.
    pub fn over(&mut self, path: &Path) {
        self.share("over", path, false);
        self.arguments.push(OVER);
    }

    /// Shares a directory of the host over virtio-9p, as `tag`.
    pub fn share(&mut self, tag: &str, path: &Path, writable: bool) {
        // Modes and owners come from the host. The guest has only the rights of the user that runs
        // QEMU.
        let mut share = OsString::from("local,path=");
        share.push(escaped(path.as_os_str()));
        share.push(format!(",mount_tag={tag},security_model=none,multidevs=remap"));
        share.push(if writable { "" } else { ",readonly=on" });
        self.command.arg("-virtfs").arg(share);
    }

    /// A stream out of the guest, without terminal processing: /sys/class/virtio-ports/*/name.
    pub fn port(&mut self, name: &str) -> Result<UnixStream> {
        let (ours, theirs) = UnixStream::pair()?;
        self.socket(name, theirs);
        self.args("-device");
        self.command.arg(format!("virtserialport,chardev={name},name={name}"));
        Ok(ours)
    }

    /// A network card at one end of a cable, for `host`.
    pub fn cable(&mut self, end: UnixStream, host: u8) {
        let fd = OwnedFd::from(end);
        self.args("-netdev");
        self.command.arg(format!("socket,id=cable,fd={}", fd.as_raw_fd()));
        self.inherited.push(fd);
        self.args("-device");
        // It is not a boot device, so it needs no ROM.
        let mac = format!("52:54:00:00:00:{host:02x}");
        self.command.arg(format!("virtio-net-pci,netdev=cable,mac={mac},romfile="));
    }

    /// Starts it. QEMU's own errors go to `log`. Call this from the main thread: QEMU dies with the
    /// thread that started it.
    pub fn start(mut self, log: &Path) -> Result<Running> {
        let arguments = format!("{KERNEL_ARGUMENTS} {}", self.arguments.join(" "));
        self.command.arg("-append").arg(arguments.trim_end());
        let log = File::create(log).with_context(|| format!("cannot write {}", log.display()))?;
        self.command.stderr(log);
        let fds: Vec<RawFd> = self.inherited.iter().map(AsRawFd::as_raw_fd).collect();
        let parent = std::process::id();
        // SAFETY: between fork and exec, `in_child` makes system calls and reads `fds`; it neither
        // allocates nor takes a lock.
        unsafe { self.command.pre_exec(move || in_child(parent, &fds)) };
        let child = self.command.spawn().with_context(|| {
            format!("cannot run {QEMU}.\nNext: apt-get install qemu-system-x86")
        })?;
        Ok(Running { child })
    }

    /// The command line, for a log.
    pub fn line(&self) -> String {
        let words = [self.command.get_program()].into_iter().chain(self.command.get_args());
        words.map(|word| quote(word).to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
    }

    fn args(&mut self, words: &str) {
        self.command.args(words.split_whitespace());
    }

    fn socket(&mut self, id: &str, end: UnixStream) {
        let fd = OwnedFd::from(end);
        self.command.arg("-chardev").arg(format!("socket,id={id},fd={}", fd.as_raw_fd()));
        self.inherited.push(fd);
    }
}

/// In the child, before it becomes QEMU: die with the parent, and keep the sockets over exec.
fn in_child(parent: u32, fds: &[RawFd]) -> io::Result<()> {
    // SAFETY: prctl with PR_SET_PDEATHSIG takes a signal number and touches no memory.
    let result = unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
    checked(result)?;
    // The parent may have died before the call above.
    if parent_id() != parent {
        return Err(io::ErrorKind::BrokenPipe.into());
    }
    for &fd in fds {
        // SAFETY: F_SETFD takes an integer and touches no memory; it clears close-on-exec.
        let result = unsafe { libc::fcntl(fd, libc::F_SETFD, 0) };
        checked(result)?;
    }
    Ok(())
}

fn checked(result: libc::c_int) -> io::Result<()> {
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// In QEMU's option lists, a comma in a value is written twice.
fn escaped(value: &OsStr) -> OsString {
    use std::os::unix::ffi::{OsStrExt, OsStringExt};
    let bytes = value.as_bytes().iter();
    OsString::from_vec(
        bytes.flat_map(|&b| std::iter::repeat_n(b, if b == b',' { 2 } else { 1 })).collect(),
    )
}

/// A running QEMU, killed when dropped.
pub struct Running {
    child: Child,
}

impl Running {
    pub fn exited(&mut self) -> Result<Option<ExitStatus>> {
        self.child.try_wait().context("waiting for QEMU")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Fails if QEMU has already exited, and then there is nothing to do.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::escaped;

    #[test]
    fn commas_are_doubled() {
        assert_eq!(escaped("/a,b/c".as_ref()), "/a,,b/c");
    }
}
