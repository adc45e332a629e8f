//! What the programs of the field have in common.
//!
//! Each program does the same work through the public API of one crate, in one or more forms, on a
//! stub libibverbs that notes what it is given. Under callgrind the stub dumps the cost of each
//! row; `cargo xtask field` builds the programs, runs them, and makes the table.

mod expect;
mod held;
mod stub;

use std::ffi::{c_int, c_void};
use std::process::exit;

pub use held::Held;
pub use stub::{Form, Stub};

/// Bytes of each message.
pub const LEN: usize = 16;
/// Work requests that queues hold, and completions of completion queues.
pub const DEPTH: u32 = 64;
/// Where WRITEs go.
pub const REMOTE_ADDR: u64 = 0x10_0000;
/// The rkey there.
pub const REMOTE_KEY: u32 = 0x4242;
/// The device's name.
pub const DEVICE: &str = "stub0";

/// The work that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// One WRITE (one SEND where the crate has no WRITE), signaled, of one registered buffer.
    Post,
    /// Four of them in one post.
    Chain4,
    /// One receive.
    Recv,
    /// Polls one completion: its status, its wr_id.
    Poll1,
    /// Polls sixteen.
    Poll16,
    /// Posts one, polls its completion.
    Cycle,
}

impl Work {
    fn name(self) -> &'static str {
        match self {
            Work::Post => "post",
            Work::Chain4 => "chain4",
            Work::Recv => "recv",
            Work::Poll1 => "poll1",
            Work::Poll16 => "poll16",
            Work::Cycle => "cycle",
        }
    }

    /// Posts of one work request that must come before.
    fn posts_before(self) -> usize {
        match self {
            Work::Poll1 => 1,
            Work::Poll16 => 16,
            _ => 0,
        }
    }
}

/// One way to do the work through one crate. Methods give whether it worked.
pub trait Api {
    /// The crate.
    const CRATE: &'static str;
    /// The form, in a word or two: a crate may have several.
    const FORM: &'static str;
    /// Whether the queue pair completes every send by itself (`sq_sig_all`).
    const SIGNAL_ALL: bool = false;
    /// Whether the posts are SENDs.
    const SENDS: bool = false;
    /// Completions of a chain of four: one if only its last is signaled.
    const CHAIN_COMPLETIONS: u32 = 4;
    /// Who holds what may go wrong.
    const HELD: Held;
    /// The work that the form offers.
    const OFFERS: &'static [Work];

    fn post(&mut self) -> bool {
        false
    }
    fn chain4(&mut self) -> bool {
        false
    }
    fn recv(&mut self) -> bool {
        false
    }
    fn poll1(&mut self) -> bool {
        false
    }
    fn poll16(&mut self) -> bool {
        false
    }
    fn cycle(&mut self) -> bool {
        false
    }
    /// Posts one work request `n` times, to be polled; not counted.
    fn post_before(&mut self, n: usize) -> bool {
        (0..n).all(|_| self.post())
    }
    /// Takes back what is outstanding; not counted.
    fn restore(&mut self) {}
}

macro_rules! form {
    ($method:ident) => {{
        unsafe extern "C" fn call<A: Api>(api: *mut c_void) -> c_int {
            // SAFETY: called with the `A` of `run` only, which nothing else borrows then.
            let api = unsafe { &mut *api.cast::<A>() };
            c_int::from(!api.$method())
        }
        call::<A>
    }};
}

fn form<A: Api>(work: Work) -> Form {
    match work {
        Work::Post => form!(post),
        Work::Chain4 => form!(chain4),
        Work::Recv => form!(recv),
        Work::Poll1 => form!(poll1),
        Work::Poll16 => form!(poll16),
        Work::Cycle => form!(cycle),
    }
}

/// Calls before the first that is counted: lazy binding, caches of the allocator.
const WARM: u32 = 4;
/// Calls that are counted.
const CALLS: u32 = 32;

/// Measures all that the form offers.
pub fn run<A: Api>(mut api: A) {
    println!("form {}/{}", A::CRATE, A::FORM);
    A::HELD.print();
    let result = Stub::find()
        .and_then(|stub| A::OFFERS.iter().try_for_each(|work| measure(&stub, &mut api, *work)));
    if let Err(error) = result {
        eprintln!("error: {}/{}: {error}", A::CRATE, A::FORM);
        exit(1)
    }
    // Not dropped: teardown is not what is measured, and the stub keeps no order.
    std::mem::forget(api);
}

fn measure<A: Api>(stub: &Stub, api: &mut A, work: Work) -> Result<(), String> {
    let form = form::<A>(work);
    let label = format!("{}/{}/{}", A::CRATE, A::FORM, work.name());
    for i in 0..WARM + CALLS {
        stub.reset(A::SIGNAL_ALL);
        if !api.post_before(work.posts_before()) {
            return Err(format!("{} failed at a post before", work.name()));
        }
        let env: *mut A = api;
        let code = if i < WARM {
            // SAFETY: the form is of this type, and `api` is not used until it returns.
            unsafe { form(env.cast()) }
        } else {
            // SAFETY: the form is of this type, and `api` is not used until it returns.
            unsafe { stub.measure(form, env.cast()) }
        };
        if code != 0 {
            return Err(format!("{} failed", work.name()));
        }
        expect::check::<A>(work, &stub.image(), stub.pending())?;
        api.restore();
    }
    if stub.is_counting() {
        stub.dump(&label);
    }
    println!("count {label} {CALLS}");
    Ok(())
}
