//! Processes and threads that end with work outstanding, and programs that are started during
//! transfers.

use std::any::Any;
use std::cell::RefCell;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, abort, exit};
use std::sync::Mutex;
use std::{env, fs, thread};

use proverbs::completion::Notify;
use proverbs::memory::MapOptions;
use proverbs::prelude::*;
use proverbs::qp::Max;

use crate::support::*;

profile! { Ring { signaling: Selective } }
profile! { OnSrq { receive: SharedRq } }

const HOW: &str = "PROVERBS_ATTACK_EXIT";

/// Everything that can be outstanding, on every transport, and never completes.
fn busy() -> (Pool, Box<dyn Any + std::marker::Send>) {
    let (dev, wish) = (Device::open(), Wish::new());
    let pd = dev.ctx.alloc_pd().unwrap();
    let pool = pd.create_pool(20, 64).unwrap();
    let channel = dev.ctx.create_comp_channel().unwrap();
    let mut cq = dev.ctx.cq(60).channel(&channel).create::<Buf>().unwrap();
    let region = pd.register::<RemoteAll>(64).unwrap();
    let nobody = 0xfffff0;

    let ring = pd.create_qp::<Rc, Ring>(&cq, &cq, wish.depth).unwrap();
    let mut ring = Rc::up(ring, &dev, nobody, &wish);
    ring.post_recv(wr::Recv::new(poisoned(&pool))).unwrap();
    let _ = ring.post_send_unsignaled(wr::Send::new(filled(&pool, b"never told of"))).unwrap();
    ring.post_send(wr::Send::new(filled(&pool, b"nobody"))).unwrap();

    let uc = pd.create_qp::<Uc, DefaultProfile>(&cq, &cq, wish.depth).unwrap();
    let mut uc = Uc::up(uc, &dev, nobody, &wish);
    uc.post_recv(wr::Recv::new(poisoned(&pool))).unwrap();

    let feed = pd.create_pool(4, 128).unwrap();
    let mut srq = pd.create_srq::<Ud, Buf, Max<1>, ()>(&feed).unwrap();
    let ud = pd.create_qp::<Ud, OnSrq>(&cq, &cq, Depth::on_srq(4, &srq)).unwrap();
    let mut ud = Ud::up(ud, &dev, nobody, &wish);
    let way = ud.way_to(&dev, &pd, nobody);
    while let Some(buf) = feed.take() {
        srq.post_srq_recv(wr::Recv::new(buf)).unwrap();
    }
    ud.post_send(wr::Send::new(filled(&pool, b"to nobody")).to(way)).unwrap();
    drop(cq.poll_or_arm(Notify::Any).unwrap());
    // Parents first, so that only their children keep them.
    (pool.clone(), Box::new((dev, pd, pool, channel, region, feed, srq, ring, uc, ud, cq)))
}

/// Objects that must exist when the process ends.
static KEPT: Mutex<Vec<Box<dyn Any + std::marker::Send>>> = Mutex::new(Vec::new());

/// The child process of the test below; on its own it does nothing.
#[test]
#[ignore = "started by a_process_that_ends_with_work_outstanding"]
fn child() {
    let Ok(how) = env::var(HOW) else { return };
    let (_pool, kept) = busy();
    match how.as_str() {
        "exit" => exit(7),
        "abort" => abort(),
        "return" => KEPT.lock().unwrap().push(kept),
        "forget" => std::mem::forget(kept),
        "panic" => panic!("with everything on the stack"),
        "elsewhere" => {
            // The process ends while this thread is inside verbs.
            thread::spawn(|| exit(7));
            loop {
                drop(busy());
            }
        }
        other => unreachable!("{other}"),
    }
}

/// The child process of the test below; on its own it does nothing. It maps a file, truncates it,
/// and reads it.
#[test]
#[ignore = "started by a_file_that_is_truncated_under_its_mapping"]
fn reader_of_a_file() {
    let Ok(path) = env::var(HOW) else { return };
    let file = fs::File::options().read(true).write(true).open(path).unwrap();
    let memory = MapOptions::new().file(&file, 0..8192).unwrap();
    assert!(!memory.is_sealed());
    let pd = Device::open().ctx.alloc_pd().unwrap();
    let region = pd.region::<RemoteWrite>().create_in(memory).unwrap();
    file.set_len(4096).unwrap();
    let mut byte = [0];
    region.read_at(4095, &mut byte).unwrap();
    assert_eq!(byte, [b'x']);
    region.read_at(4096, &mut byte).unwrap();
    unreachable!("there is no such byte: {byte:?}");
}

/// A program that reads beyond the end of the truncated file is killed by SIGBUS, and reads no
/// other memory.
/// Proves R18.9.
#[test]
#[cfg_attr(miri, ignore = "Miri starts no processes")]
fn a_file_that_is_truncated_under_its_mapping() {
    let path = env::temp_dir().join(format!("proverbs-cut-off-{}", std::process::id()));
    fs::write(&path, [b'x'; 8192]).unwrap();
    let status = Command::new(env::current_exe().unwrap())
        .args(["exit::reader_of_a_file", "--exact", "--ignored", "--quiet"])
        .env(HOW, &path)
        .stdout(std::process::Stdio::null())
        .status()
        .unwrap();
    fs::remove_file(&path).unwrap();
    assert_eq!((status.code(), status.signal()), (None, Some(7)));
}

/// The child process of the test below; on its own it does nothing.
#[test]
#[ignore = "started by a_limit_on_locked_memory"]
fn under_a_limit() {
    if env::var(HOW).is_err() {
        return;
    }
    const LIMIT: u64 = 64 << 10;
    let says = |error: proverbs::Error, verb| {
        let expected = ErrorKind::LockedMemory { asked: 1 << 20, locked: 0, limit: LIMIT };
        assert_eq!((error.verb(), error.kind()), (verb, &expected), "{error}");
    };
    says(MapOptions::new().locked().anonymous(1 << 20).unwrap_err(), "mlock");
    let memory = MapOptions::new().locked().anonymous(LIMIT as usize).unwrap();
    drop(memory);
    // The loopback device pins nothing.
    if env::var("PROVERBS_DEVICE").is_ok() {
        let pd = Device::open().ctx.alloc_pd().unwrap();
        let refused = pd.region::<RemoteRead>().create_in(vec![0u8; 1 << 20]).unwrap_err();
        let (memory, error) = refused.into_parts();
        assert_eq!(memory.len(), 1 << 20);
        says(error, "ibv_reg_mr");
    }
}

/// A process that may lock 64 KiB gets an error that names the limit to raise.
/// Proves R18.7.
#[test]
#[cfg_attr(miri, ignore = "Miri starts no processes")]
fn a_limit_on_locked_memory() {
    // Without CAP_IPC_LOCK, which root has and which lifts the limit.
    let is_root = fs::metadata("/proc/self").unwrap().uid() == 0;
    let without: &[&str] =
        if is_root { &["setpriv", "--bounding-set", "-ipc_lock"] } else { &["env"] };
    let status = Command::new(without[0])
        .args(&without[1..])
        .args(["sh", "-c", "ulimit -l 64 && exec \"$0\" \"$@\""])
        .arg(env::current_exe().unwrap())
        .args(["exit::under_a_limit", "--exact", "--ignored", "--quiet"])
        .env(HOW, "limit")
        .stdout(std::process::Stdio::null())
        .status()
        .unwrap();
    assert!(status.success(), "{status}");
}

/// The kernel objects of this process; `None` if they cannot be listed.
fn left_by(pid: u32) -> Option<Vec<String>> {
    env::var("PROVERBS_DEVICE").ok()?;
    let mut lines = Vec::new();
    for kind in ["qp", "cq", "mr", "pd", "cm_id", "ctx", "srq"] {
        let out = Command::new("rdma").args(["resource", "show", kind]).output().ok()?;
        let text = String::from_utf8_lossy(&out.stdout).into_owned();
        lines.extend(text.lines().map(str::to_owned));
    }
    let whose = format!(" pid {pid} ");
    lines.retain(|line| format!("{line} ").contains(&whose));
    Some(lines)
}

/// Proves R17.6.
#[test]
#[cfg_attr(miri, ignore = "Miri starts no processes")]
fn a_process_that_ends_with_work_outstanding() {
    fails_on!(IwarpOtherwise, "R24.4");
    for (how, code, signal) in [
        ("exit", Some(7), None),
        ("abort", None, Some(6)),
        ("return", Some(0), None),
        ("forget", Some(0), None),
        ("panic", Some(101), None),
        ("elsewhere", Some(7), None),
    ] {
        let mut child = Command::new(env::current_exe().unwrap())
            .args(["exit::child", "--exact", "--ignored", "--quiet"])
            .env(HOW, how)
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .spawn()
            .unwrap();
        let pid = child.id();
        let status = child.wait().unwrap();
        assert_eq!((status.code(), status.signal()), (code, signal), "{how}");
        if let Some(left) = left_by(pid) {
            assert!(left.is_empty(), "{how} leaves {left:?} in the kernel");
        }
    }
}

/// Objects in a thread's local storage are dropped with the thread, while work is outstanding; all
/// buffers return.
#[test]
fn a_thread_that_ends_with_work_outstanding() {
    fails_on!(Iwarp, "R24.4");
    thread_local! {
        static MINE: RefCell<Option<Box<dyn Any>>> = const { RefCell::new(None) };
    }
    let pool = thread::spawn(|| {
        let (pool, kept) = busy();
        MINE.set(Some(kept));
        pool
    });
    let pool = pool.join().unwrap();
    assert_eq!(pool.available(), 20);
    pool.destroy().unwrap();
}

/// Between fork and exec a child shares this process's pages. Data that the device writes then must
/// still reach this process.
/// Proves R17.4.
#[test]
#[cfg_attr(miri, ignore = "Miri starts no processes")]
fn programs_started_while_messages_arrive() {
    let mut p = Pair::<Rc>::new();
    let me = fs::metadata("/proc/self").unwrap().uid();
    thread::scope(|scope| {
        let starter = scope.spawn(move || {
            for _ in 0..10 {
                // With a user id, std forks instead of spawning without a copy of the address
                // space.
                let status = Command::new("true").uid(me).status().unwrap();
                assert!(status.success());
            }
        });
        let mut round = 0u8;
        while round == 0 || !starter.is_finished() {
            round = round.wrapping_add(1).max(1);
            p.b.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
            p.a.post_send(wr::Send::new(filled(&p.pool, &[round; 64]))).unwrap();
            let got = poll(&p.dev, &mut p.cb, 1).remove(0).received();
            assert_eq!(got.data(), [round; 64]);
            poll(&p.dev, &mut p.ca, 1);
        }
    });
    assert_eq!(p.pool.available(), 40);
}
