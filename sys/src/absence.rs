//! Explains why this process cannot use an RDMA device.
//!
//! The errno of the C libraries is often not enough. libibverbs lists no device in three different
//! cases: a missing file, a missing permission, and a process without descriptors. If this process
//! cannot open another file, the dynamic linker reports that the library does not exist.

use std::ffi::c_int;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

#[cfg(feature = "cm")]
use crate::libraries::CM;
use crate::libraries::{Library, VERBS};
use crate::terms::absence::Absence;
use crate::terms::error::{Error, ErrorKind};

/// The object of a failed call.
#[derive(Clone, Copy)]
pub enum Wanted<'a> {
    /// Any device, if libibverbs lists none.
    Any,
    /// The device with this name.
    Device(&'a str),
    /// An event channel or an id of rdma_cm.
    #[cfg(feature = "cm")]
    Cm,
}

/// Explains why a call failed, if the system shows the cause. `errno` is 0 if libibverbs does not
/// list the device.
pub fn why(wanted: Wanted<'_>, errno: c_int) -> Option<Absence> {
    SYSTEM.why(wanted, errno)
}

/// The error of a call that failed: the cause, or the errno with `asked` if no cause is visible.
pub fn error(verb: &'static str, wanted: Wanted<'_>, errno: c_int, asked: &str) -> Error {
    match why(wanted, errno) {
        Some(absence) => Error::new(verb, ErrorKind::Absent(absence)),
        None => Error::os(verb, errno, asked),
    }
}

/// Whether the device file of rdma_cm has another device number than the kernel's device.
#[cfg(feature = "cm")]
pub(crate) fn cm_is_stale() -> bool {
    matches!(SYSTEM.node("rdma_cm", "rdma_cm"), Some(Absence::Stale { .. }))
}

/// The directories that are searched for devices.
struct Place<'a> {
    sys: &'a str,
    dev: &'a str,
}

const SYSTEM: Place<'static> = Place { sys: "/sys/class", dev: "/dev/infiniband" };

impl Place<'_> {
    fn why(&self, wanted: Wanted<'_>, errno: c_int) -> Option<Absence> {
        if is_of_files(errno) {
            return Some(too_many_files());
        }
        if errno == libc::ELIBACC {
            return Some(no_library(wanted));
        }
        let may_be_absent =
            [0, libc::ENODEV, libc::ENOSYS, libc::ENOENT, libc::EACCES, libc::EPERM];
        if !may_be_absent.contains(&errno) {
            return None;
        }
        let sys = Path::new(self.sys);
        match sys.try_exists() {
            Ok(true) => {}
            Ok(false) => return Some(Absence::Sysfs),
            Err(error) => return of_files(&error),
        }
        #[cfg(feature = "cm")]
        if let Wanted::Cm = wanted {
            if !sys.join("misc/rdma_cm").exists() {
                return Some(Absence::Module { name: "rdma_ucm" });
            }
            if let Some(absence) = self.node("rdma_cm", "rdma_cm") {
                return Some(absence);
            }
        }
        if !sys.join("infiniband_verbs").exists() {
            return Some(Absence::Module { name: "ib_uverbs" });
        }
        let devices = match self.devices() {
            Ok(devices) => devices,
            Err(error) => return of_files(&error),
        };
        let why = |(name, node): &(String, String)| {
            let unlisted = || matches!(errno, 0 | libc::ENODEV | libc::ENOSYS);
            self.node(name, node).or_else(|| unlisted().then(|| unlisted_device(name)))
        };
        match wanted {
            _ if devices.is_empty() => Some(Absence::Device),
            Wanted::Device(wanted) => why(devices.iter().find(|(name, _)| name == wanted)?),
            // A usable device is not a cause.
            _ => devices.iter().map(why).collect::<Option<Vec<_>>>()?.into_iter().next(),
        }
    }

    /// The devices of the kernel, each with the name of its file.
    fn devices(&self) -> io::Result<Vec<(String, String)>> {
        let mut devices = Vec::new();
        for entry in fs::read_dir(Path::new(self.sys).join("infiniband_verbs"))? {
            let entry = entry?;
            match fs::read_to_string(entry.path().join("ibdev")) {
                Ok(name) => {
                    let node = entry.file_name().to_string_lossy().into_owned();
                    devices.push((name.trim_end().to_owned(), node));
                }
                Err(error) if error.raw_os_error().is_some_and(is_of_files) => return Err(error),
                // `abi_version` is a file in the same directory.
                Err(_) => {}
            }
        }
        devices.sort();
        Ok(devices)
    }

    /// Whether the kernel has the device, but not in this process's network namespace.
    fn is_elsewhere(&self, device: &str, node: &str) -> bool {
        let has = |class, name| Path::new(self.sys).join(class).join(name).exists();
        has("infiniband_verbs", node) && !has("infiniband", device)
    }

    /// Whether a file has another number than the kernel's device.
    fn is_of_another(&self, node: &str, file: &File) -> bool {
        let number =
            |class| fs::read_to_string(Path::new(self.sys).join(class).join(node).join("dev"));
        let number = number("infiniband_verbs").or_else(|_| number("misc"));
        let (Ok(number), Ok(found)) = (number, file.metadata()) else { return false };
        number.trim() != format!("{}:{}", libc::major(found.rdev()), libc::minor(found.rdev()))
    }

    /// Explains why this process cannot use a file, if it cannot.
    fn node(&self, device: &str, node: &str) -> Option<Absence> {
        let path = Path::new(self.dev).join(node);
        let error = match OpenOptions::new().read(true).write(true).open(&path) {
            Ok(file) if self.is_of_another(node, &file) => {
                return Some(Absence::Stale { path, device: device.to_owned() });
            }
            opened => opened.err()?,
        };
        match error.raw_os_error()? {
            errno if is_of_files(errno) => Some(too_many_files()),
            libc::ENOENT | libc::ENOTDIR => Some(Absence::Node { path, device: device.to_owned() }),
            // The class `infiniband` shows only the devices of this network namespace.
            libc::EPERM if self.is_elsewhere(device, node) => {
                Some(Absence::Namespace { device: device.to_owned() })
            }
            errno @ (libc::EACCES | libc::EPERM) => Some(Absence::Forbidden { path, errno }),
            // The file exists, and the kernel refuses for another reason, which C's errno gives.
            _ => None,
        }
    }
}

/// Explains why a library could not be loaded.
fn no_library(wanted: Wanted<'_>) -> Absence {
    let library: &Library = match wanted {
        #[cfg(feature = "cm")]
        Wanted::Cm => &CM,
        _ => &VERBS,
    };
    let opened = File::open("/dev/null");
    opened
        .err()
        .as_ref()
        .and_then(of_files)
        .unwrap_or_else(|| Absence::Library { file: library.file(), reason: library.failure() })
}

/// Explains why libibverbs does not list a device whose file this process can open. libibverbs
/// opens several files for each device, and reports no error if it may not.
fn unlisted_device(name: &str) -> Absence {
    const OPEN_AT_ONCE: u64 = 8;
    let open = fs::read_dir("/proc/self/fd").map_or(0, |open| open.count() as u64);
    if open + OPEN_AT_ONCE > limit_of_files() {
        return too_many_files();
    }
    Absence::Provider { device: name.to_owned() }
}

fn is_of_files(errno: c_int) -> bool {
    matches!(errno, libc::EMFILE | libc::ENFILE)
}

fn of_files(error: &io::Error) -> Option<Absence> {
    error.raw_os_error().is_some_and(is_of_files).then(too_many_files)
}

fn too_many_files() -> Absence {
    Absence::Files { limit: limit_of_files() }
}

#[allow(unsafe_code)]
fn limit_of_files() -> u64 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is a local that the call fills.
    unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) };
    limit.rlim_cur
}

#[cfg(test)]
#[cfg(not(miri))] // reads files
mod tests {
    use std::path::PathBuf;

    use super::*;

    /// A directory with its own `sys` and `dev`.
    struct Tree(PathBuf);

    impl Tree {
        fn new(name: &str) -> Tree {
            let root = std::env::temp_dir().join(format!("absence-{name}-{}", std::process::id()));
            _ = fs::remove_dir_all(&root);
            fs::create_dir_all(root.join("dev")).unwrap();
            Tree(root)
        }

        fn write(&self, file: &str, text: &str) {
            let file = self.0.join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        }

        fn why(&self, wanted: Wanted<'_>, errno: c_int) -> Option<Absence> {
            let of = |name| self.0.join(name).display().to_string();
            Place { sys: &of("sys"), dev: &of("dev") }.why(wanted, errno)
        }
    }

    impl Drop for Tree {
        fn drop(&mut self) {
            _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn each_cause_has_its_own_explanation() {
        let tree = Tree::new("devices");
        let node = |node: &str, device: &str| {
            Some(Absence::Node { path: tree.0.join("dev").join(node), device: device.into() })
        };
        assert_eq!(tree.why(Wanted::Any, libc::ENOSYS), Some(Absence::Sysfs));
        tree.write("sys/net/lo", "");
        let module = Some(Absence::Module { name: "ib_uverbs" });
        assert_eq!(tree.why(Wanted::Any, libc::ENOSYS), module);
        tree.write("sys/infiniband_verbs/abi_version", "6");
        assert_eq!(tree.why(Wanted::Any, 0), Some(Absence::Device));
        assert_eq!(tree.why(Wanted::Device("rxe0"), 0), Some(Absence::Device));
        tree.write("sys/infiniband_verbs/uverbs0/ibdev", "rxe0\n");
        tree.write("sys/infiniband_verbs/uverbs1/ibdev", "rxe1\n");
        assert_eq!(tree.why(Wanted::Any, 0), node("uverbs0", "rxe0"));
        assert_eq!(tree.why(Wanted::Device("rxe1"), 0), node("uverbs1", "rxe1"));
        assert_eq!(tree.why(Wanted::Device("rxe2"), 0), None, "the kernel has no such device");
        tree.write("dev/uverbs1", "");
        assert_eq!(
            tree.why(Wanted::Device("rxe1"), libc::ENOMEM),
            None,
            "the errno is the \
            explanation"
        );
        assert_eq!(tree.why(Wanted::Any, libc::ENOMEM), None, "rxe1 can be used");
        let provider = Some(Absence::Provider { device: "rxe1".into() });
        assert_eq!(tree.why(Wanted::Device("rxe1"), 0), provider);
        assert!(matches!(tree.why(Wanted::Any, libc::EMFILE), Some(Absence::Files { .. })));
        let is_elsewhere = |device, node| {
            let of = |name| tree.0.join(name).display().to_string();
            Place { sys: &of("sys"), dev: &of("dev") }.is_elsewhere(device, node)
        };
        tree.write("sys/infiniband/rxe0/node_guid", "");
        let elsewhere = [("rxe0", "uverbs0"), ("rxe1", "uverbs1"), ("rdma_cm", "rdma_cm")];
        let elsewhere = elsewhere.map(|(device, node)| is_elsewhere(device, node));
        assert_eq!(elsewhere, [false, true, false], "rdma_cm is no device");
    }

    /// A device's file is opened as libibverbs opens it: opening a pipe in one direction would wait
    /// for the other end.
    #[test]
    fn a_file_is_opened_for_reading_and_writing() {
        let tree = Tree::new("pipe");
        tree.write("sys/infiniband_verbs/uverbs0/ibdev", "rxe0\n");
        let pipe = tree.0.join("dev/uverbs0");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let (tell, told) = std::sync::mpsc::channel();
        std::thread::spawn(move || tell.send(tree.why(Wanted::Any, libc::ENOMEM)));
        assert_eq!(told.recv_timeout(std::time::Duration::from_secs(10)), Ok(None));
    }

    #[cfg(feature = "cm")]
    #[test]
    fn a_channel_needs_its_module_and_its_file() {
        let tree = Tree::new("cm");
        tree.write("sys/infiniband_verbs/uverbs0/ibdev", "rxe0\n");
        tree.write("dev/uverbs0", "");
        let module = Some(Absence::Module { name: "rdma_ucm" });
        assert_eq!(tree.why(Wanted::Cm, libc::ENOENT), module);
        tree.write("sys/misc/rdma_cm/abi_version", "4");
        let path = tree.0.join("dev/rdma_cm");
        let node = Some(Absence::Node { path, device: "rdma_cm".into() });
        assert_eq!(tree.why(Wanted::Cm, libc::ENOENT), node);
        tree.write("dev/rdma_cm", "");
        assert_eq!(tree.why(Wanted::Cm, libc::ENOMEM), None, "the errno is the explanation");
    }

    /// A container that is older than the loaded driver has files with old numbers.
    #[test]
    fn a_file_of_another_device_is_named() {
        let tree = Tree::new("stale");
        let stale = |node: &str, device: &str| {
            Some(Absence::Stale { path: tree.0.join("dev").join(node), device: device.into() })
        };
        tree.write("sys/infiniband_verbs/uverbs0/ibdev", "rxe0\n");
        for file in ["uverbs0", "rdma_cm"] {
            std::os::unix::fs::symlink("/dev/null", tree.0.join("dev").join(file)).unwrap();
        }
        // The number of /dev/null, and others.
        for (number, is_stale) in [("1:3\n", false), ("1:5\n", true), ("231:192\n", true)] {
            tree.write("sys/infiniband_verbs/uverbs0/dev", number);
            tree.write("sys/misc/rdma_cm/dev", number);
            let why = tree.why(Wanted::Device("rxe0"), libc::ENOENT);
            assert_eq!(why, stale("uverbs0", "rxe0").filter(|_| is_stale), "{number}");
            #[cfg(feature = "cm")]
            assert_eq!(
                tree.why(Wanted::Cm, libc::ENOENT),
                stale("rdma_cm", "rdma_cm").filter(|_| is_stale),
                "{number}"
            );
        }
        let text = stale("uverbs0", "rxe0").unwrap().to_string();
        assert!(text.contains("uverbs0 is not the file of rxe0"), "{text}");
    }

    /// libibverbs fails with ENOSYS if this process can open no file, and returns an empty list if
    /// it can open a few.
    #[test]
    fn a_process_without_descriptors_gets_its_limit() {
        const CHILD: &str = "PROVERBS_WITHOUT_DESCRIPTORS";
        if std::env::var_os(CHILD).is_none() {
            // A few more than are open: a test runner may pass any number of them to its children.
            let command = "last=$(ls /proc/$$/fd | sort -n | tail -1); ulimit -n $((last + 20)); \
                           exec \"$0\" --exact \"$1\" --nocapture";
            let child = std::process::Command::new("sh")
                .args(["-c", command])
                .arg(std::env::current_exe().unwrap())
                .arg("absence::tests::a_process_without_descriptors_gets_its_limit")
                .env(CHILD, "1")
                .output()
                .unwrap();
            let said = String::from_utf8_lossy(&child.stdout).into_owned();
            assert!(child.status.success() && said.contains("1 passed"), "{said}{child:?}");
            return;
        }
        let tree = Tree::new("files");
        tree.write("sys/infiniband_verbs/uverbs0/ibdev", "rxe0\n");
        tree.write("dev/uverbs0", "");
        let limit = limit_of_files();
        let open = || File::open("/dev/null");
        let mut most: Vec<_> = (0..limit).map_while(|_| open().ok()).collect();
        assert_eq!(open().unwrap_err().raw_os_error(), Some(libc::EMFILE), "the limit holds");
        let limit = Some(Absence::Files { limit });
        assert_eq!(tree.why(Wanted::Any, libc::ENOSYS), limit);
        assert_eq!(tree.why(Wanted::Device("rxe0"), 0), limit);
        for left in 1..=3 {
            most.pop();
            assert_eq!(tree.why(Wanted::Any, 0), limit, "libibverbs opens more than {left} files");
        }
        drop(most);
        assert_eq!(tree.why(Wanted::Any, 0), Some(Absence::Provider { device: "rxe0".into() }));
    }
}
