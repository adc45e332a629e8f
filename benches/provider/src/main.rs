//! C and Rust on mlx5's own data path, with the provider's locks and in a lane. The device is not
//! there: `fake.c` completes what was posted. `cargo xtask provider` builds all of it, and counts
//! under callgrind what this program times by itself.

use std::error::Error;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::mem::ManuallyDrop;
use std::ptr::{self, NonNull};
use std::time::Instant;

use proverbs::bounded::{MinRnrTimer, ResponderDepth, RetryCount, RnrRetry, Timeout};
use proverbs::completion::{CompletionQueueEx, CompletionTs};
use proverbs::device::Gid;
use proverbs::memory::{Raw, ToWrite};
use proverbs::prelude::*;
use proverbs::qp::{RcRtsOptional, RtrOptional};
use proverbs::raw::{AsRaw, ibv_context, ibv_cq, ibv_pd, ibv_qp};

profile! { Locks { } }
profile! { Lane { threads: InLane } }
profile! { CLocks { entry: Raw } }
profile! { CLane { entry: Raw, threads: InLane } }
profile! { LocksEx { posting: ExtendedPosting } }
profile! { LaneEx { threads: InLane, posting: ExtendedPosting } }

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
    create_ex: unsafe extern "C" fn(*mut ibv_pd, c_int) -> *mut ibv_qp,
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
    sum: u64,
}

/// What the Rust forms work on. A handle is read anew for each post, and given up by the poll.
struct World<P: Profile, C = CompletionQueue<<P as Profile>::Entry, <P as Profile>::Threads>> {
    qp: QueuePair<Rc, Rts, P>,
    cq: C,
    to: RemoteSpan<ToWrite>,
    next: u32,
    bufs: [ManuallyDrop<Buf>; BUFS],
    payload: [u8; 16],
    /// What the program does with the times of completions.
    sum: u64,
}

/// One way to post and poll: its functions, what they take, and its queue pair.
struct Way {
    name: String,
    posts: Vec<Row>,
    polls: Vec<Row>,
    env: *mut c_void,
    qp: *mut ibv_qp,
}

/// A form.
#[derive(Clone, Copy)]
struct Row {
    label: &'static str,
    /// Of a post: how many it has. Of a poll: how many it takes.
    completions: usize,
    form: Form,
}

/// A row as it is called everywhere: label, completions, and the twin's function.
type Known = (&'static str, usize, &'static CStr);

const POSTS: [Known; 4] = [
    ("WRITE", 1, c"twin_write"),
    ("inline SEND", 1, c"twin_inline"),
    ("chain of 4", 4, c"twin_chain"),
    ("receive", 1, c"twin_recv"),
];
const POLLS: [Known; 1] = [("poll", 1, c"twin_poll")];
/// Of extended posting and polling. The first posts one.
const POSTS_EX: [Known; 3] = [
    ("session: WRITE", 1, c"twin_session1"),
    ("session: inline SEND", 1, c"twin_session_inline"),
    ("session: 4 WRITEs", 4, c"twin_session4"),
];
const POLLS_EX: [Known; 2] =
    [("extended poll of 1, with time", 1, c"twin_timed1"), (POLL_16, BATCH, c"twin_timed16")];
const POLL_16: &str = "extended poll of 16, with times";

/// Rust's forms of these rows.
fn rows<const N: usize>(known: [Known; N], forms: [Form; N]) -> Vec<Row> {
    let row = |((label, completions, _), form)| Row { label, completions, form };
    known.into_iter().zip(forms).map(row).collect()
}

/// The twin's.
fn rows_of(twin: &Library, known: &[Known]) -> Result<Vec<Row>, Box<dyn Error>> {
    let row = |&(label, completions, name): &Known| {
        // SAFETY: each is a form of twin.c.
        let form = unsafe { twin.get::<Form>(name)? };
        Ok(Row { label, completions, form })
    };
    known.iter().map(row).collect()
}

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

#[cold]
#[inline(never)]
fn dead(error: proverbs::Error) -> c_int {
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

            forms!(World<$profile>);

            unsafe extern "C" fn recv(world: *mut c_void) -> c_int {
                // SAFETY: the way's world, during the call.
                let world = unsafe { here(world) };
                let buf = buf(world);
                done(world.qp.post_recv(wr::Recv::new(buf)))
            }

            unsafe extern "C" fn poll(world: *mut c_void) -> c_int {
                // SAFETY: the way's world, during the call.
                let world = unsafe { here(world) };
                match world.cq.poll_one() {
                    Ok(Some(completion)) => {
                        let failed = completion.status().is_err();
                        std::mem::forget(completion.into_entry());
                        failed.into()
                    }
                    Ok(None) => 1,
                    Err(error) => dead(error),
                }
            }

            pub fn way(name: &str, world: Here) -> Way {
                let (posts, polls) = (rows(POSTS, [write, inline, chain, recv]), rows(POLLS, [poll]));
                make(name, world, posts, polls)
            }
        }
    };
    // Of extended posting and polling.
    ($name:ident, $profile:ty, $threads:ty) => {
        mod $name {
            use super::*;

            forms!(World<$profile, CompletionQueueEx<CompletionTs, Buf, $threads>>);

            unsafe extern "C" fn poll(world: *mut c_void) -> c_int {
                // SAFETY: the way's world, during the call.
                let world = unsafe { here(world) };
                match world.cq.poll_one() {
                    Ok(Some((completion, fields))) => {
                        let Some(time) = fields.completion_ts() else { return 1 };
                        world.sum += time;
                        std::mem::forget(completion.into_entry());
                        0
                    }
                    Ok(None) => 1,
                    Err(error) => dead(error),
                }
            }

            unsafe extern "C" fn poll_16(world: *mut c_void) -> c_int {
                // SAFETY: the way's world, during the call.
                let world = unsafe { here(world) };
                let completions = match world.cq.poll() {
                    Ok(completions) => completions,
                    Err(error) => return dead(error),
                };
                let mut seen = 0;
                for (completion, fields) in completions {
                    let Some(time) = fields.completion_ts() else { return 1 };
                    world.sum += time;
                    std::mem::forget(completion.into_entry());
                    seen += 1;
                }
                (seen != BATCH).into()
            }

            pub fn way(name: &str, world: Here) -> Way {
                let posts = rows(POSTS_EX, [write, inline, chain]);
                make(name, world, posts, rows(POLLS_EX, [poll, poll_16]))
            }
        }
    };
    ($world:ty) => {
        type Here = $world;

        /// # Safety
        /// It is the way's world, and used by nobody else for `'a`.
        #[inline(always)]
        unsafe fn here<'a>(world: *mut c_void) -> &'a mut Here {
            // SAFETY: the pointer is to the way's world, a live `Here`, which nobody else uses for
            // `'a` (this function's contract).
            unsafe { &mut *world.cast::<Here>() }
        }

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
            // SAFETY: the way's world, during the call.
            let world = unsafe { here(world) };
            let buf = buf(world);
            done(world.qp.post_send(wr::RdmaWrite::new(buf, world.to)))
        }

        unsafe extern "C" fn inline(world: *mut c_void) -> c_int {
            // SAFETY: the way's world, during the call.
            let world = unsafe { here(world) };
            done(world.qp.post_send(wr::Send::inline(&world.payload)))
        }

        unsafe extern "C" fn chain(world: *mut c_void) -> c_int {
            // SAFETY: the way's world, during the call.
            let world = unsafe { here(world) };
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

        fn make(name: &str, world: Here, posts: Vec<Row>, polls: Vec<Row>) -> Way {
            let qp = world.qp.as_raw();
            let env = Box::into_raw(Box::new(world)).cast();
            Way { name: name.to_owned(), posts, polls, env, qp }
        }
    };
}

forms!(locks, Locks);
forms!(lane, Lane);
forms!(locks_ex, LocksEx, AnyThread);
forms!(lane_ex, LaneEx, InLane);

/// A queue pair on a completion queue of its own, made by this call of `$of`.
macro_rules! made {
    ($profile:ty, $domain:expr, $of:ident.$create:ident $(::<$fields:ty>)?) => {{
        let cq $(: CompletionQueueEx<$fields, _, _>)? = $of.$create(1024)?;
        let qp = up($domain.create_qp::<Rc, $profile>(&cq, &cq, DEPTH)?)?;
        (qp, cq)
    }};
}

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
    let pool: &Pool = Box::leak(Box::new(pd.create_pool(16 * BUFS, SIZE)?));
    let bufs = || -> [ManuallyDrop<Buf>; BUFS] {
        std::array::from_fn(|_| ManuallyDrop::new(pool.take().expect("a buffer")))
    };
    let mut all = Vec::new();
    for (name, twin) in twins {
        let mut add = |mode, posts, polls, qp: *mut ibv_qp, cq: *mut ibv_cq| {
            let env = Env {
                qp,
                cq,
                remote: region.remote().addr(),
                length: SIZE as u32,
                lkey: LKEY,
                rkey: region.remote().rkey(),
                next: 0,
                addr: bufs().map(|buf| buf.as_ptr().addr() as u64),
                payload: [7; 16],
                sum: 0,
            };
            let (posts, polls) = (rows_of(twin, posts)?, rows_of(twin, polls)?);
            let env = Box::into_raw(Box::new(env)).cast();
            all.push(Way { name: format!("{name}, {mode}"), posts, polls, env, qp });
            Ok::<(), Box<dyn Error>>(())
        };
        let (qp, cq) = made!(CLocks, pd, context.create_cq);
        add("locks", &POSTS[..], &POLLS[..], qp.as_raw(), cq.as_raw())?;
        std::mem::forget((qp, cq));
        let (qp, cq) = made!(CLane, lane, lane.create_cq);
        add("lane", &POSTS[..], &POLLS[..], qp.as_raw(), cq.as_raw())?;
        std::mem::forget((qp, cq));
        // No queue of extended polling is without books in the crate, so C makes its own.
        for (mode, pd) in [("locks", pd.as_raw()), ("lane", lane.as_raw())] {
            // SAFETY: a domain of the fake, whose queue pairs point to their completion queues.
            let (qp, cq) = unsafe {
                let qp = (ground.create_ex)(pd, (mode == "lane").into());
                (qp, (*qp).send_cq)
            };
            add(mode, &POSTS_EX[..], &POLLS_EX[..], qp, cq)?;
        }
    }
    let (to, next, payload, sum) = (region.remote().write(), 0, [7; 16], 0);
    macro_rules! add {
        ($name:literal, $room:ident, $made:expr) => {
            let (qp, cq) = $made;
            all.push($room::way($name, World { qp, cq, to, next, bufs: bufs(), payload, sum }));
        };
    }
    add!("Rust, locks", locks, made!(Locks, pd, context.create_cq));
    add!("Rust, lane", lane, made!(Lane, lane, lane.create_cq));
    let made = made!(LocksEx, pd, context.create_cq_ex::<CompletionTs>);
    add!("Rust, locks", locks_ex, made);
    let made = made!(LaneEx, lane, lane.create_cq_ex::<CompletionTs>);
    add!("Rust, lane", lane_ex, made);
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

    fn run(&self, row: Row, times: usize) {
        for _ in 0..times {
            // SAFETY: a form of this way, and what it takes.
            assert_eq!(unsafe { (row.form)(self.env) }, 0, "{}: {}", self.name, row.label);
        }
    }

    /// Posts as often as it takes for these completions, and completes.
    fn posted(&self, ground: &Ground, post: Row, completions: usize) {
        self.run(post, completions / post.completions);
        self.complete(ground, completions);
    }

    /// Polls them all, one by one.
    fn polled(&self, completions: usize) {
        self.run(self.polls[0], completions);
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
    let call = |way: &Way, row: Row| assert_eq!(unsafe { (ground.call)(row.form, way.env) }, 0);
    for way in ways {
        for &post in &way.posts {
            // The first rounds are cold.
            way.posted(ground, post, post.completions);
            way.polled(post.completions);
            for _ in 0..CALLS {
                call(way, post);
                way.complete(ground, post.completions);
                way.polled(post.completions);
            }
            dump(&format!("{}/{}", post.label, way.name))?;
        }
        for &poll in &way.polls {
            for _ in 0..CALLS {
                way.posted(ground, way.posts[0], poll.completions);
                call(way, poll);
            }
            dump(&format!("{}/{}", poll.label, way.name))?;
        }
    }
    Ok(())
}

/// Times batches of all ways in turn; the minimum is printed, in ns a call.
fn time(ground: &Ground, ways: &[Way]) {
    let rows = |way: &Way| way.posts.len() + way.polls.len();
    let mut least: Vec<_> = ways.iter().map(|way| vec![f64::INFINITY; rows(way)]).collect();
    let timed = |way: &Way, row: Row, times: usize| {
        let begin = Instant::now();
        way.run(row, times);
        begin.elapsed().as_nanos() as f64 / times as f64
    };
    for _ in 0..ROUNDS {
        for (way, least) in ways.iter().zip(&mut least) {
            let (of_posts, of_polls) = least.split_at_mut(way.posts.len());
            for (&post, least) in way.posts.iter().zip(of_posts) {
                *least = least.min(timed(way, post, BATCH));
                way.complete(ground, BATCH * post.completions);
                way.polled(BATCH * post.completions);
            }
            for (&poll, least) in way.polls.iter().zip(of_polls) {
                way.posted(ground, way.posts[0], BATCH);
                *least = least.min(timed(way, poll, BATCH / poll.completions));
            }
        }
    }
    for (way, least) in ways.iter().zip(&least) {
        for (row, ns) in way.posts.iter().chain(&way.polls).zip(least) {
            println!("time {}/{} {ns:.2}", row.label, way.name);
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
            create_ex: provider.get(c"fake_create_ex")?,
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
