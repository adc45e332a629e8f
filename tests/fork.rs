//! `ibv_fork_init`, in its own process, since it affects the whole process and must come first.
#![cfg(not(miri))]

use std::process::Command;

use proverbs::device::{ForkStatus, devices, fork_init, fork_status};
use proverbs::prelude::*;

/// Proves R17.4.
#[test]
fn fork_init_succeeds_before_devices_are_opened() {
    let before = fork_status();
    let status = fork_init().expect("no device was opened yet");
    assert_eq!(status, fork_status());
    let expected = match before {
        ForkStatus::Disabled => ForkStatus::Enabled,
        other => other,
    };
    assert_eq!(status, expected);
    // A repeated call returns the same, even when a device is open.
    let _context = devices().unwrap().first().map(|first| Context::open(&first.name).unwrap());
    assert_eq!(fork_init().unwrap(), status);
    drop(proverbs::cm::EventChannel::new()); // librdmacm opens devices by itself, if there are any
    assert_eq!(fork_init().unwrap(), status);
    assert!(Command::new("true").status().unwrap().success());
}

/// Once a device may have been opened, which librdmacm does by itself, it is too late.
#[test]
fn a_late_fork_init_is_an_error() {
    use proverbs::cm::{AddrInfo, EventChannel, Tcp};
    const CHILD: &str = "PROVERBS_FORK_TOO_LATE";
    let ways = ["a channel", "an address", "a device"];
    let Ok(way) = std::env::var(CHILD) else {
        for way in ways {
            let this = std::env::current_exe().unwrap();
            let name = "a_late_fork_init_is_an_error";
            let child = Command::new(this).args(["--exact", name]).env(CHILD, way).output();
            let child = child.unwrap();
            assert!(child.status.success(), "{way}: {}", String::from_utf8_lossy(&child.stdout));
        }
        return;
    };
    let before = fork_status();
    // There may be no rdma_cm, and no device.
    match way.as_str() {
        "a channel" => drop(EventChannel::new()),
        "an address" => drop(AddrInfo::<Tcp>::look_up("127.0.0.1", "7471")),
        _ => match devices().unwrap_or_default().first() {
            Some(first) => drop(Context::open(&first.name).unwrap()),
            None => return,
        },
    }
    match before {
        ForkStatus::Disabled => assert_eq!(fork_init().unwrap_err().errno(), Some(22)),
        other => assert_eq!(fork_init().unwrap(), other),
    }
    assert_eq!(fork_status(), before);
}

/// Nothing was opened if there is no library. An attempt to open a channel does not change that.
#[test]
fn without_a_library_fork_init_names_it() {
    use proverbs::device::Absence;
    const CHILD: &str = "PROVERBS_FORK_WITHOUT_A_LIBRARY";
    if std::env::var_os(CHILD).is_none() {
        // The dynamic linker cannot load a directory.
        let folder = std::env::temp_dir().join(format!("proverbs-fork-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("libibverbs.so.1")).unwrap();
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "without_a_library_fork_init_names_it"])
            .envs([(CHILD, "1".as_ref()), ("LD_LIBRARY_PATH", folder.as_os_str())])
            .output();
        std::fs::remove_dir_all(&folder).unwrap();
        let child = child.unwrap();
        assert!(child.status.success(), "{}", String::from_utf8_lossy(&child.stdout));
        return;
    }
    assert!(proverbs::cm::EventChannel::new().is_err());
    let error = fork_init().unwrap_err();
    let ErrorKind::Absent(Absence::Library { file, .. }) = error.kind() else { panic!("{error}") };
    assert_eq!(*file, "libibverbs.so.1");
}
