//! C and Rust on mlx5's own data path, with the provider's locks and in a lane. The device is not
//! there: `fake.c` completes what was posted. `cargo xtask provider` builds all of it, and counts
//! under callgrind what this program times by itself.

use std::error::Error;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::mem::ManuallyDrop;
use std::ptr::{self, NonNull};
use std::time::Instant;

use proverbs::bounded::{MinRnrTimer, ResponderDepth, RetryCount, RnrRetry, Timeout};
use proverbs::device::Gid;
use proverbs::memory::{Raw, ToWrite};
use proverbs::prelude::*;
use proverbs::qp::{RcRtsOptional, RtrOptional};
use proverbs::raw::{AsRaw, ibv_context, ibv_cq, ibv_qp};

profile! { Locks { } }
profile! { Lane { threads: InLane } }
profile! { CLocks { entry: Raw } }
profile! { CLane { entry: Raw, threads: InLane } }

type Form = unsafe extern "C" fn(*mut c_void) -> c_int;

/// Buffers, and calls in a batch: a chain of four each.
const BUFS: usize = 64;
const BATCH: usize = BUFS / 4;
const ROUNDS: usize = 4000;
const DEPTH: Depth = Depth { send: 256, recv: 256 };
const SIZE: usize = 64;
/// What fake.c registers everything with.
const LKEY: u32 = 0x1234;

/// A shared object, never closed.
struct Library(NonNull<c_void>);

impl Library {
    fn open(path: &str) -> Result<Self, Box<dyn Error>> {
        let file = CString::new(path)?;
        // SAFETY: the objects have no constructors but those of libibverbs' provider.
        let handle = unsafe { libc::dlopen(file.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        // SAFETY: the text, if there is one, is a string until the next call.
        let why = || unsafe { libc::dlerror().as_ref().map(|text| CStr::from_ptr(text)) };
        Ok(Library(NonNull::new(handle).ok_or_else(|| format!("{path}: {:?}", why()))?))
    }

    /// # Safety
    /// `F` is the type of this function.
    unsafe fn get<F: Copy>(&self, name: &CStr) -> Result<F, Box<dyn Error>> {
        const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
        // SAFETY: the object is open.
        let symbol = unsafe { libc::dlsym(self.0.as_ptr(), name.as_ptr()) };
        let symbol = NonNull::new(symbol).ok_or_else(|| format!("there is no {name:?}"))?;
        // SAFETY: not null, as large as `F`, and the caller knows the function to be one.
        Ok(unsafe { std::mem::transmute_copy(&symbol) })
    }
}

/// The functions of fake.c and meter.c.
struct Ground {
    open: unsafe extern "C" fn() -> *mut ibv_context,
    complete: unsafe extern "C" fn(*mut ibv_qp) -> c_int,
    call: unsafe extern "C" fn(Form, *mut c_void) -> c_int,
    dump: unsafe extern "C" fn(*const c_char),
    is_counting: unsafe extern "C" fn() -> c_int,
}

/// `struct env` of twin.c.
#[repr(C)]
struct Env {
    qp: *mut ibv_qp,
    cq: *mut ibv_cq,
    remote: u64,
    length: u32,
    lkey: u32,
    rkey: u32,
    next: u32,
    addr: [u64; BUFS],
    payload: [u8; 16],
}

/// What the Rust forms work on. A handle is read anew for each post, and given up by the poll.
struct World<P: Profile> {
    qp: QueuePair<Rc, Rts, P>,
    cq: CompletionQueue<P::Entry, P::Threads>,
    to: RemoteSpan<ToWrite>,
    next: u32,
    bufs: [ManuallyDrop<Buf>; BUFS],
    payload: [u8; 16],
}

/// One way to post: its functions, what they take, and its queue pair.
struct Way {
    name: String,
    /// In the order of `ROWS`.
    posts: [Form; 4],
    poll: Form,
    env: *mut c_void,
    qp: *mut ibv_qp,
}

/// Label and completions of each.
const ROWS: [(&str, usize); 4] =
    [("WRITE", 1), ("inline SEND", 1), ("chain of 4", 4), ("receive", 1)];

fn up<P: Profile<Initiator = Reads>>(
    qp: QueuePair<Rc, Reset, P>,
) -> Result<QueuePair<Rc, Rts, P>, proverbs::Error> {
    let qp = qp.modify(ConnectedInit { pkey_index: 0, port: 1, access: QpAccess::all() })?;
    let qp = qp.modify(RcRtr {
        address: AddressVector::roce(1, Gid([1; 16]), 0),
        path_mtu: Mtu::Bytes4096,
        dest_qpn: Qpn::try_from(1)?,
        rq_psn: Psn::try_from(0)?,
        max_dest_rd_atomic: ResponderDepth::try_from(1)?,
        min_rnr_timer: MinRnrTimer::try_from(1)?,
        optional: RtrOptional::default(),
    })?;
    Ok(qp.modify(RcRts {
        timeout: Timeout::Infinite,
        retry_cnt: RetryCount::try_from(6)?,
        rnr_retry: RnrRetry::Infinite,
        sq_psn: Psn::try_from(0)?,
        max_rd_atomic: ReadDepth::ONE,
        optional: RcRtsOptional::default(),
    })?)
}

/// What a program does about an error, out of the way.
#[cold]
#[inline(never)]
fn refused(error: PostError<Buf>) -> c_int {
    eprintln!("{error}");
    1
}

#[inline(always)]
fn done(result: Result<(), PostError<Buf>>) -> c_int {
    match result {
        Ok(()) => 0,
        Err(error) => refused(error),
    }
}

/// The Rust forms, of one profile.
macro_rules! forms {
    ($name:ident, $profile:ty) => {
        mod $name {
            use super::*;

            type Here = World<$profile>;

            /// The next buffer.
            #[inline(always)]
            fn buf(world: &mut Here) -> Buf {
                let at = world.next as usize % BUFS;
                world.next = world.next.wrapping_add(1);
                // SAFETY: the handle that was read here last was given up when its completion was
                // polled, which was before this one's turn came.
                unsafe { ptr::read(&*world.bufs[at]) }
            }

            unsafe extern "C" fn write(world: *mut c_void) -> c_int {
                // SAFETY: the way's world.
                let world = unsafe { &mut *world.cast::<Here>() };
                let buf = buf(world);
                done(world.qp.post_send(wr::RdmaWrite::new(buf, world.to)))
            }

            unsafe extern "C" fn inline(world: *mut c_void) -> c_int {
                // SAFETY: the way's world.
                let world = unsafe { &mut *world.cast::<Here>() };
                done(world.qp.post_send(wr::Send::inline(&world.payload)))
            }

            unsafe extern "C" fn chain(world: *mut c_void) -> c_int {
                // SAFETY: the way's world.
                let world = unsafe { &mut *world.cast::<Here>() };
                let [a, b, c, d] = [buf(world), buf(world), buf(world), buf(world)];
                let to = world.to;
                done(post_send!(
                    world.qp,
                    [
                        wr::RdmaWrite::new(a, to),
                        wr::RdmaWrite::new(b, to),
                        wr::RdmaWrite::new(c, to),
                        wr::RdmaWrite::new(d, to),
                    ]
                ))
            }

            unsafe extern "C" fn recv(world: *mut c_void) -> c_int {
                // SAFETY: the way's world.
                let world = unsafe { &mut *world.cast::<Here>() };
                let buf = buf(world);
                done(world.qp.post_recv(wr::Recv::new(buf)))
            }

            unsafe extern "C" fn poll(world: *mut c_void) -> c_int {
                // SAFETY: the way's world.
                let world = unsafe { &mut *world.cast::<Here>() };
                match world.cq.poll_one() {
                    Ok(Some(completion)) => {
                        let failed = completion.status().is_err();
                        std::mem::forget(completion.into_entry());
                        failed.into()
                    }
                    _ => 1,
                }
            }

            pub fn way(name: &str, world: Here) -> Way {
                let qp = world.qp.as_raw();
                let env = Box::into_raw(Box::new(world)).cast();
                let posts: [Form; 4] = [write, inline, chain, recv];
                Way { name: name.to_owned(), posts, poll, env, qp }
            }
        }
    };
}

forms!(locks, Locks);
forms!(lane, Lane);

/// The ways on one device: of each twin and of Rust, with locks and in a lane.
fn ways(ground: &Ground, twins: &[(String, Library)]) -> Result<Vec<Way>, Box<dyn Error>> {
    // SAFETY: the fake has no conditions, and its context lives as long as the process.
    let context = unsafe {
        let context = NonNull::new((ground.open)()).ok_or("no fake context")?;
        Context::from_raw(context, ())
    };
    let pd = context.alloc_pd()?;
    let lane = pd.alloc_lane()?;
    if !lane.has_thread_domain() {
        return Err("the fake has thread domains".into());
    }
    let region: &MemoryRegion<RemoteWrite> = Box::leak(Box::new(pd.register(SIZE)?));
    let pool: &Pool = Box::leak(Box::new(pd.create_pool(8 * BUFS, SIZE)?));
    let bufs = || -> [ManuallyDrop<Buf>; BUFS] {
        std::array::from_fn(|_| ManuallyDrop::new(pool.take().expect("a buffer")))
    };
    let env = |qp: *mut ibv_qp, cq: *mut ibv_cq| Env {
        qp,
        cq,
        remote: region.remote().addr(),
        length: SIZE as u32,
        lkey: LKEY,
        rkey: region.remote().rkey(),
        next: 0,
        addr: bufs().map(|buf| buf.as_ptr().addr() as u64),
        payload: [7; 16],
    };
    let mut all = Vec::new();
    for (name, twin) in twins {
        // SAFETY: each is a form of twin.c.
        let (posts, poll) = unsafe {
            let names = [c"twin_write", c"twin_inline", c"twin_chain", c"twin_recv"];
            let [a, b, c, d] = names.map(|name| twin.get::<Form>(name));
            ([a?, b?, c?, d?], twin.get::<Form>(c"twin_poll")?)
        };
        let mut add = |mode: &str, qp: *mut ibv_qp, cq: *mut ibv_cq| {
            let env = Box::into_raw(Box::new(env(qp, cq))).cast();
            all.push(Way { name: format!("{name}, {mode}"), posts, poll, env, qp });
        };
        let cq = context.create_cq(1024)?;
        let qp = up(pd.create_qp::<Rc, CLocks>(&cq, &cq, DEPTH)?)?;
        add("locks", qp.as_raw(), cq.as_raw());
        std::mem::forget((qp, cq));
        let cq = lane.create_cq(1024)?;
        let qp = up(lane.create_qp::<Rc, CLane>(&cq, &cq, DEPTH)?)?;
        add("lane", qp.as_raw(), cq.as_raw());
        std::mem::forget((qp, cq));
    }
    let (to, next, payload) = (region.remote().write(), 0, [7; 16]);
    let cq = context.create_cq(1024)?;
    let qp = up(pd.create_qp::<Rc, Locks>(&cq, &cq, DEPTH)?)?;
    all.push(locks::way("Rust, locks", World { qp, cq, to, next, bufs: bufs(), payload }));
    let cq = lane.create_cq(1024)?;
    let qp = up(lane.create_qp::<Rc, Lane>(&cq, &cq, DEPTH)?)?;
    all.push(lane::way("Rust, lane", World { qp, cq, to, next, bufs: bufs(), payload }));
    std::mem::forget((context, pd, lane));
    Ok(all)
}

impl Way {
    /// The device completes what was posted: as many as expected.
    fn complete(&self, ground: &Ground, expected: usize) {
        // SAFETY: a queue pair of the fake.
        let completions = unsafe { (ground.complete)(self.qp) };
        assert_eq!(completions as usize, expected, "{}", self.name);
    }

    fn run(&self, form: Form, times: usize) {
        for _ in 0..times {
            // SAFETY: a form of this way, and what it takes.
            assert_eq!(unsafe { form(self.env) }, 0, "{}", self.name);
        }
    }
}

/// Counts each form of each way.
fn count(ground: &Ground, ways: &[Way]) -> Result<(), Box<dyn Error>> {
    const CALLS: usize = 200;
    let dump = |label: &str| -> Result<(), Box<dyn Error>> {
        let text = CString::new(label)?;
        // SAFETY: a string.
        unsafe { (ground.dump)(text.as_ptr()) };
        println!("count {label} {CALLS}");
        Ok(())
    };
    // SAFETY: a form of this way, and what it takes.
    let call = |way: &Way, form: Form| assert_eq!(unsafe { (ground.call)(form, way.env) }, 0);
    for way in ways {
        for ((row, completions), form) in ROWS.into_iter().zip(way.posts) {
            // The first rounds are cold.
            way.run(form, 1);
            way.complete(ground, completions);
            way.run(way.poll, completions);
            for _ in 0..CALLS {
                call(way, form);
                way.complete(ground, completions);
                way.run(way.poll, completions);
            }
            dump(&format!("{row}/{}", way.name))?;
        }
        for _ in 0..CALLS {
            way.run(way.posts[0], 1);
            way.complete(ground, 1);
            call(way, way.poll);
        }
        dump(&format!("poll/{}", way.name))?;
    }
    Ok(())
}

/// Times batches of all ways in turn; the minimum is printed, in ns a call.
fn time(ground: &Ground, ways: &[Way]) {
    let mut least = vec![[f64::INFINITY; ROWS.len() + 1]; ways.len()];
    let timed = |way: &Way, form: Form, times: usize| {
        let begin = Instant::now();
        way.run(form, times);
        begin.elapsed().as_nanos() as f64 / times as f64
    };
    for _ in 0..ROUNDS {
        for (way, least) in ways.iter().zip(&mut least) {
            for (row, ((_, completions), form)) in ROWS.into_iter().zip(way.posts).enumerate() {
                least[row] = least[row].min(timed(way, form, BATCH));
                way.complete(ground, BATCH * completions);
                let poll = timed(way, way.poll, BATCH * completions);
                if row == 0 {
                    least[ROWS.len()] = least[ROWS.len()].min(poll);
                }
            }
        }
    }
    for (way, least) in ways.iter().zip(&least) {
        for (row, ns) in ROWS.iter().map(|row| row.0).chain(["poll"]).zip(least) {
            println!("time {row}/{} {ns:.2}", way.name);
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [provider, meter, twins @ ..] = &args[..] else {
        return Err("run by cargo xtask provider".into());
    };
    let (provider, meter) = (Library::open(provider)?, Library::open(meter)?);
    // SAFETY: these are the types of the functions in fake.c and meter.c.
    let ground = unsafe {
        Ground {
            open: provider.get(c"fake_open")?,
            complete: provider.get(c"fake_complete")?,
            call: meter.get(c"meter_call")?,
            dump: meter.get(c"meter_dump")?,
            is_counting: meter.get(c"meter_is_counting")?,
        }
    };
    let twins: Result<Vec<_>, Box<dyn Error>> = twins
        .iter()
        .map(|twin| {
            let (name, path) = twin.split_once('=').ok_or("NAME=FILE")?;
            Ok((name.to_owned(), Library::open(path)?))
        })
        .collect();
    let ways = ways(&ground, &twins?)?;
    // SAFETY: it has no conditions.
    if unsafe { (ground.is_counting)() } != 0 {
        count(&ground, &ways)
    } else {
        time(&ground, &ways);
        Ok(())
    }
}
