//! Does one thing that may fail, and prints the error's message, or `done`.
//!
//! `tests/interop/absence.sh` creates the situations in a guest and compares the messages. Without
//! an argument this does nothing.
#![forbid(unsafe_code)]

use std::fs::{self, File};
use std::process::{Command, ExitCode};

use proverbs::cm::{CmId, EventChannel, Tcp};
use proverbs::prelude::*;
use proverbs::qp::Max;

type Done = Result<(), proverbs::Error>;

const DEPTH: Depth = Depth { send: 1, recv: 1 };

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let Some(what) = arguments.next().filter(|what| !what.starts_with('-')) else {
        return ExitCode::SUCCESS;
    };
    let device = std::env::var("PROVERBS_DEVICE").unwrap_or_else(|_| "rxe0".into());
    let number = arguments.next().map_or(0, |number| number.parse().expect("a number"));
    match run(&what, &device, number) {
        Ok(()) => println!("done"),
        Err(error) => println!("{error}"),
    }
    ExitCode::SUCCESS
}

fn run(what: &str, device: &str, number: usize) -> Done {
    let open = || Context::open(device);
    match what {
        "devices" => proverbs::devices().map(drop),
        "open" => open().map(drop),
        "open-unknown" => Context::open("rxe7").map(drop),
        "channel" => EventChannel::new().map(drop),
        "id" => CmId::<Tcp, _>::new().map(drop),
        // With `number` descriptors left.
        "devices-with" | "open-with" | "channel-with" | "id-with" | "comp-channel-with" => {
            let context = if what == "comp-channel-with" { Some(open()?) } else { None };
            let mut files: Vec<File> =
                std::iter::from_fn(|| File::open("/dev/null").ok()).collect();
            files.truncate(files.len().saturating_sub(number));
            match what {
                "devices-with" => proverbs::devices().map(drop),
                "open-with" => open().map(drop),
                "channel-with" => EventChannel::new().map(drop),
                "id-with" => CmId::<Tcp, _>::new().map(drop),
                _ => context.expect("opened").create_comp_channel().map(drop),
            }
        }
        "region" => open()?.alloc_pd()?.create_pool(1, number).map(drop),
        "cq" | "cq-without-memory" => {
            let context = open()?;
            limit_memory(what);
            context.create_cq::<Buf>(number as u32).map(drop)
        }
        "qp" | "qp-without-memory" => {
            let context = open()?;
            let (pd, cq) = (context.alloc_pd()?, context.create_cq(2 * number as u32)?);
            let depth = Depth { send: number as u32, recv: number as u32 };
            limit_memory(what);
            pd.create_qp::<Rc, DefaultProfile>(&cq, &cq, depth).map(drop)
        }
        "srq" | "srq-without-memory" => {
            let pd = open()?.alloc_pd()?;
            let pool = pd.create_pool(number, 8)?;
            limit_memory(what);
            pd.create_srq::<Rc, Buf, Max<1>, _>(&pool).map(drop)
        }
        "port" => {
            let context = open()?;
            let (pd, cq) = (context.alloc_pd()?, context.create_cq(2)?);
            let qp = pd.create_qp::<Rc, DefaultProfile>(&cq, &cq, DEPTH)?;
            let access = QpAccess::empty();
            let init = ConnectedInit { pkey_index: 0, port: number as u8, access };
            qp.modify(init).map(drop).map_err(|refused| refused.error)
        }
        _ => panic!("unknown: {what}"),
    }
}

/// Leaves no address space for a queue, so that the provider returns ENOMEM.
fn limit_memory(what: &str) {
    if !what.ends_with("-without-memory") {
        return;
    }
    const LEFT: usize = 128 << 10;
    let statm = fs::read_to_string("/proc/self/statm").expect("this process's memory");
    let pages: usize = statm.split(' ').next().and_then(|pages| pages.parse().ok()).expect("pages");
    let limit = format!("--as={}", (pages << 12) + LEFT);
    let pid = std::process::id().to_string();
    let done = Command::new("prlimit").args(["--pid", &pid, &limit]).status();
    assert!(done.is_ok_and(|status| status.success()));
}
