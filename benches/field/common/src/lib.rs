//! What the programs of the field have in common.
//!
//! Each program does the same work through the public API of one crate, in one or more forms, on a
//! stub libibverbs that notes what it is given. Under callgrind the stub dumps the cost of each
//! row; `cargo xtask field` builds the programs, runs them, and makes the table.

mod expect;
mod held;
mod stub;

use std::error::Error;
use std::ffi::{c_int, c_void};
use std::process::exit;
use std::ptr;

pub use held::Held;
pub use stub::{Form, Stub};

/// Bytes of each buffer, and of each message but those of [`Work::Length`].
pub const LEN: usize = 64;
/// What is sent inline.
pub const PAYLOAD: [u8; 16] = *b"sixteen bytes in";
/// Passes of a program through its loop.
pub const ROUNDS: usize = 32;
/// The most completions that an echo asks for.
pub const BATCH: usize = 16;
/// Work requests that queues hold, and completions of completion queues.
pub const DEPTH: u32 = 64;
/// Where WRITEs go.
pub const REMOTE_ADDR: u64 = 0x10_0000;
/// The rkey there.
pub const REMOTE_KEY: u32 = 0x4242;
/// The device's name.
pub const DEVICE: &str = "stub0";

/// What programs and their parts give: errors go up by `?`.
pub type Done<T = ()> = Result<T, Box<dyn Error>>;

/// The length of a message of [`Work::Length`].
#[inline(always)]
pub fn length(round: usize) -> usize {
    8 + round
}

/// The work that is measured: calls, and programs as they are written, their loops included.
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
    /// One WRITE after the other (SENDs where the crate has no WRITE), all from one buffer: the
    /// post, the poll, a look at the status, the buffer that the completion names.
    Loop,
    /// The same with another length each time.
    Length,
    /// Four WRITEs from four buffers in one post, of which the last alone completes, and that
    /// completion.
    Chain,
    /// A SEND of [`PAYLOAD`], inline, and its completion.
    Inline,
    /// What arrives is answered from its buffer, and what was sent is a receive again. An item is
    /// a completion with its post. One buffer is on its way.
    Echo,
    /// The same with eight on their way.
    Echo8,
}

impl Work {
    pub fn name(self) -> &'static str {
        match self {
            Work::Post => "post",
            Work::Chain4 => "chain4",
            Work::Recv => "recv",
            Work::Poll1 => "poll1",
            Work::Poll16 => "poll16",
            Work::Cycle => "cycle",
            Work::Loop => "loop",
            Work::Length => "length",
            Work::Chain => "chain",
            Work::Inline => "inline",
            Work::Echo => "echo",
            Work::Echo8 => "echo8",
        }
    }

    /// Items of one call, each of which is what is compared.
    fn items(self) -> usize {
        match self {
            Work::Loop | Work::Length | Work::Chain | Work::Inline | Work::Echo => ROUNDS,
            Work::Echo8 => 8 * ROUNDS,
            _ => 1,
        }
    }

    /// Receives that must come before, each of which completes at once.
    fn receives_before(self) -> usize {
        match self {
            Work::Echo => 1,
            Work::Echo8 => 8,
            _ => 0,
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

    /// The function to be measured and what it is called with, where it is not one of the methods
    /// below.
    fn function(&self, _work: Work) -> Option<(Form, *mut c_void)> {
        None
    }

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
    fn write_loop(&mut self) -> bool {
        false
    }
    fn lengths(&mut self) -> bool {
        false
    }
    fn chain(&mut self) -> bool {
        false
    }
    fn inline(&mut self) -> bool {
        false
    }
    /// Takes so many completions, each with its post.
    fn echoes(&mut self, _items: usize) -> bool {
        false
    }
    #[inline(always)]
    fn echo(&mut self) -> bool {
        self.echoes(Work::Echo.items())
    }
    #[inline(always)]
    fn echo8(&mut self) -> bool {
        self.echoes(Work::Echo8.items())
    }
    /// Posts a receive of each of the first `n` buffers; not counted.
    fn receive_before(&mut self, n: usize) -> bool {
        n == 0
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
        Work::Loop => form!(write_loop),
        Work::Length => form!(lengths),
        Work::Chain => form!(chain),
        Work::Inline => form!(inline),
        Work::Echo => form!(echo),
        Work::Echo8 => form!(echo8),
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
    let label = format!("{}/{}/{}", A::CRATE, A::FORM, work.name());
    for i in 0..WARM + CALLS {
        stub.reset(A::SIGNAL_ALL);
        let is_ready = api.post_before(work.posts_before());
        if !is_ready || !api.receive_before(work.receives_before()) {
            return Err(format!("{} failed at a post before", work.name()));
        }
        let function = api.function(work);
        let (form, env) = function.unwrap_or((form::<A>(work), ptr::from_mut(api).cast()));
        let code = if i < WARM {
            // SAFETY: it is called with what is its own, and `api` is not used until it returns.
            unsafe { form(env) }
        } else {
            // SAFETY: it is called with what is its own, and `api` is not used until it returns.
            unsafe { stub.measure(form, env) }
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
    println!("count {label} {}", CALLS as usize * work.items());
    Ok(())
}
