//! A constructor that lacks memory returns an error and does not end the process.
//!
//! Each case runs in a process of its own whose address space is limited to 4 GiB.
#![cfg(not(miri))]
#![forbid(unsafe_code)]

use std::process::Command;

use proverbs::Error;
use proverbs::loopback::Fabric;
use proverbs::prelude::*;

const CASE: &str = "PROVERBS_OUT_OF_MEMORY";
const MOST: usize = i32::MAX as usize;
const LONG: usize = 1 << 46;

type Case = fn(&Context, &ProtectionDomain) -> Result<(), Error>;

/// Constructors whose memory grows with their arguments, and arguments that do not fit.
const CASES: [(&str, Case); 14] = [
    ("pool, many small buffers", |_, pd| pd.create_pool(1 << 28, 8).map(drop)),
    ("pool, most buffers", |_, pd| pd.create_pool(MOST, 1).map(drop)),
    ("pool, most and largest buffers", |_, pd| pd.create_pool(MOST, MOST).map(drop)),
    ("pool, contexts", |_, pd| pd.pool(1).contexts(|_| [0u64; 64]).create(1 << 24).map(drop)),
    ("pool in memory", |_, pd| Ok(pd.pool(8).create_in(vec![0u8; 1 << 30]).map(drop)?)),
    ("arena, most buffers", |_, pd| pd.create_arena(1 << 20, MOST).map(drop)),
    ("arena, contexts", |_, pd| pd.arena(1 << 24).contexts(|_| [0u64; 64]).create(64).map(drop)),
    ("arena in memory", |_, pd| Ok(pd.arena(1 << 28).create_in(vec![0u8; 256]).map(drop)?)),
    ("arena, long", |_, pd| pd.create_arena(LONG, 4).map(drop)),
    ("region", |_, pd| pd.register::<RemoteAll>(LONG).map(drop)),
    ("mapping", |_, _| proverbs::memory::MapOptions::new().anonymous(LONG).map(drop)),
    ("completion queue", |context, _| context.create_cq::<Buf>(u32::MAX).map(drop)),
    ("queue pair", |context, pd| {
        let cq = context.create_cq::<Buf>(16)?;
        let depth = Depth { send: u32::MAX, recv: u32::MAX };
        pd.create_qp::<Rc, DefaultProfile>(&cq, &cq, depth).map(drop)
    }),
    ("queue pair, the entries of a ring", |context, pd| {
        let cq = context.create_cq::<Buf>(20_000)?;
        let _all = all_memory(128 << 10);
        pd.create_qp::<Rc, Ring>(&cq, &cq, Depth { send: 16_000, recv: 1 }).map(drop)
    }),
];

profile! { Ring { signaling: Selective } }

/// Takes memory until pieces of this size are not left.
fn all_memory(piece: usize) -> Vec<Vec<u8>> {
    let mut all = Vec::with_capacity(1000);
    let mut size = 1 << 30;
    while size >= piece {
        let mut more = Vec::new();
        match more.try_reserve_exact(size) {
            Ok(()) => all.push(more),
            Err(_) => size /= 2,
        }
    }
    all
}

#[test]
fn a_constructor_without_memory_returns_an_error() {
    let Ok(case) = std::env::var(CASE) else {
        for (name, _) in CASES {
            let this = std::env::current_exe().unwrap();
            let limited = Command::new("sh")
                .args(["-c", "ulimit -v 4194304; exec \"$0\" --nocapture"])
                .arg(this)
                .env(CASE, name)
                .output()
                .unwrap();
            let said = String::from_utf8_lossy(&limited.stdout).into_owned();
            let failed = String::from_utf8_lossy(&limited.stderr).into_owned();
            assert!(limited.status.success(), "{name}: {}\n{said}{failed}", limited.status);
            assert!(said.contains("1 passed"), "{name}: {said}");
            println!("{}", said.lines().find(|line| line.contains(name)).unwrap());
        }
        return;
    };
    let (name, create) = CASES.iter().find(|(name, _)| *name == case).unwrap();
    let context = Fabric::new().open_device();
    let pd = context.alloc_pd().unwrap();
    let error = create(&context, &pd).unwrap_err();
    println!("{name}: {error}");
    assert!(
        matches!(error.kind(), ErrorKind::Limit { .. }) || error.errno() == Some(libc::ENOMEM),
        "{error:?}"
    );
    // Refused objects have returned their memory.
    let pool = pd.create_pool(1 << 12, 1 << 16).unwrap();
    assert_eq!(pool.available(), 1 << 12);
}
