//! Stops after every instruction of a copy, and does then what others may do at any time: stores to
//! all that is there.

use std::arch::asm;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

/// No byte that is copied is as great: what is, was stored by others.
pub const OTHERS: u8 = 0x80;

struct Watch {
    bytes: *mut [u8],
    /// How often each was stored.
    stores: Vec<u32>,
    steps: u8,
    /// What others stored last.
    now: u8,
    /// Whether an instruction with a lock came after the last store, so that all could see it.
    is_seen: bool,
}

/// What a copy did.
pub struct Seen {
    /// How often each byte was stored.
    pub stores: Vec<u32>,
    /// Whether all could see the last store before the copy ended.
    pub is_waited_for: bool,
}

static WATCH: AtomicPtr<Watch> = AtomicPtr::new(ptr::null_mut());

/// Tells how often `copy` stores each of these bytes, and whether it waits then, or nothing if the
/// machine does not stop after every instruction, as under some tools. A byte is taken as stored if
/// it is not what others stored last, so storing what was there before counts too.
///
/// # Safety
/// The bytes are valid, and nothing touches them but `copy`, which stores no byte from `OTHERS` on,
/// and does not panic.
pub unsafe fn stores<F: FnMut()>(bytes: *mut [u8], mut copy: F) -> Option<Seen> {
    unsafe extern "C" fn call<F: FnMut()>(copy: *mut F) {
        // SAFETY: what is passed below.
        unsafe { (*copy)() }
    }
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _one = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let stores = vec![0; bytes.len()];
    let mut watch = Watch { bytes, stores, steps: 0, now: OTHERS, is_seen: true };
    WATCH.store(&mut watch, Relaxed);
    let was_seen;
    // SAFETY: the handler stays until the flag is off again, and touches what is watched, which
    // nobody else does meanwhile (this function's contract); `call` is a function of C's.
    unsafe {
        bytes.cast::<u8>().write_bytes(OTHERS, bytes.len());
        let mut action: libc::sigaction = std::mem::zeroed();
        let mut before = std::mem::zeroed();
        action.sa_sigaction = step as extern "C" fn(_, _, _) as usize;
        action.sa_flags = libc::SA_SIGINFO;
        assert_eq!(libc::sigaction(libc::SIGTRAP, &action, &mut before), 0);
        asm!(
            "pushfq; or qword ptr [rsp], 0x100; popfq", // the trap flag
            "call {call}",
            "pushfq; and qword ptr [rsp], ~0x100; popfq",
            call = in(reg) call::<F>,
            in("rdi") &mut copy,
            clobber_abi("C"),
        );
        assert_eq!(libc::sigaction(libc::SIGTRAP, &before, ptr::null_mut()), 0);
        was_seen = (*WATCH.swap(ptr::null_mut(), Relaxed)).steps != 0;
    }
    was_seen.then_some(Seen { stores: watch.stores, is_waited_for: watch.is_seen })
}

/// After each instruction. Calls nothing that a handler may not.
extern "C" fn step(_: i32, _: *mut libc::siginfo_t, at: *mut libc::c_void) {
    /// What an instruction begins with that locks the bus (LOCK).
    const LOCK: u8 = 0xf0;
    // SAFETY: `stores` waits for this handler, and touches neither meanwhile. The kernel tells
    // where the next instruction is, which is at least a byte.
    unsafe {
        let watch = &mut *WATCH.load(Relaxed);
        let registers = &(*at.cast::<libc::ucontext_t>()).uc_mcontext.gregs;
        let next = ptr::with_exposed_provenance::<u8>(registers[libc::REG_RIP as usize] as usize);
        let bytes = &mut *watch.bytes;
        let last = bytes.len() - 1;
        if bytes[0] != watch.now || bytes[..last] != bytes[1..] {
            for (byte, stores) in bytes.iter().zip(&mut watch.stores) {
                *stores += u32::from(*byte != watch.now);
            }
            watch.is_seen = false;
        }
        watch.is_seen |= *next == LOCK;
        watch.steps = (watch.steps + 1) % OTHERS + 1;
        watch.now = OTHERS | (watch.steps % OTHERS);
        bytes.fill(watch.now);
    }
}
