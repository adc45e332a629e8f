//! The arguments of the provider's `ibv_bind_mw`, and the meaning of its results.

use super::*;
use crate::ext::windows::{Type1Window, WindowEntry, Windowed};
use crate::loopback::Personality;
use crate::sys::types::{ibv_mw, raw};

crate::profile! { Windows { entry: AnyBuf } }

/// The arguments of one bind: window and region, the range, the rights, and the flags.
type Named = (usize, usize, u64, u64, u32, u32);

thread_local! {
    static NAMED: RefCell<Vec<Named>> = const { RefCell::new(Vec::new()) };
    static ERRNO: Cell<c_int> = const { Cell::new(0) };
}

const KEY: u32 = 0x0012_3456;

unsafe extern "C" fn noting(_: *mut ibv_qp, mw: *mut ibv_mw, bind: *mut raw::ibv_mw_bind) -> c_int {
    // SAFETY: the caller passes a window, and a bind to read.
    unsafe {
        let raw::ibv_mw_bind { send_flags, bind_info, .. } = bind.read();
        let (mr, addr, length) = (bind_info.mr as usize, bind_info.addr, bind_info.length);
        let named = (mw as usize, mr, addr, length, bind_info.mw_access_flags, send_flags);
        NAMED.with_borrow_mut(|all| all.push(named));
        if ERRNO.get() == 0 {
            (*mw).rkey = KEY;
        }
    }
    ERRNO.get()
}

struct Noted {
    qp: QueuePair<Rc, Rts, Windows>,
    pd: ProtectionDomain,
    region: MemoryRegion<Windowed<LocalWrite>>,
    _cq: CompletionQueue<AnyBuf>,
}

impl Noted {
    fn new(personality: Personality) -> Self {
        let context = Fabric::with(personality).open_device();
        let pd = context.alloc_pd().unwrap();
        let cq = context.create_cq(32).unwrap();
        let region = pd.register(64).unwrap();
        let qp = pd.create_qp::<Rc, Windows>(&cq, &cq, Depth { send: 4, recv: 4 }).unwrap();
        let qp: QueuePair<Rc, Rts, Windows> = QueuePair::from_core(qp.core);
        // SAFETY: the queue pair is alive.
        let context = unsafe { (*qp.core.qp()).context };
        // SAFETY: its context is, too, and nothing else uses it.
        unsafe { (*context).ops.bind_mw = Some(noting) };
        Noted { qp, pd, region, _cq: cq }
    }
}

/// Each argument has the program's value. A zero-length bind names the region that the window is
/// bound to, because librxe reads it.
#[test]
fn each_argument() {
    let mut n = Noted::new(Personality::Plain);
    ERRNO.set(libc::ENOMEM);
    let window = n.pd.alloc_mw().unwrap();
    let (mw, mr) = (window.0.core().mw as usize, n.region.shared().mr() as usize);
    let at = n.region.shared().at(8) as u64;
    let bind = ext::windows::MwBind::<RemoteReadWrite>::new(window, &n.region, 8..24).unwrap();
    let window = back(n.qp.bind_mw(bind)).into_type1().unwrap();
    let rights = <RemoteReadWrite as crate::memory::Access>::FLAGS & crate::ext::windows::REMOTE;
    assert_eq!(NAMED.take(), [(mw, mr, at, 16, rights, SIGNALED)]);
    let bind = ext::windows::MwBind::<RemoteRead>::new(window, &n.region, 0..64).unwrap().fence();
    let window = back(n.qp.bind_mw(bind)).into_type1().unwrap();
    let rights = <RemoteRead as crate::memory::Access>::FLAGS & crate::ext::windows::REMOTE;
    assert_eq!(NAMED.take(), [(mw, mr, at - 8, 64, rights, FENCE | SIGNALED)]);

    // The window is in the state after a successful bind.
    let bind = ext::windows::MwBind::<RemoteRead>::new(window, &n.region, 8..24).unwrap();
    let mut entry = back(n.qp.bind_mw(bind));
    NAMED.take();
    entry.0.completed(true);
    let bound = entry.into_bound_type1::<RemoteRead>().unwrap();
    let entry = back(n.qp.bind_mw(ext::windows::MwBind::unbind(bound)));
    assert_eq!(NAMED.take(), [(mw, mr, at, 0, 0, SIGNALED)]);
    drop(entry.into_bound_type1::<RemoteRead>().unwrap());
}

/// The window of a failed bind.
fn back(posted: Result<(), PostError<AnyBuf>>) -> WindowEntry {
    match posted.unwrap_err().into_rejected().next() {
        Some(AnyBuf::Window(window)) => window,
        other => panic!("{other:?}"),
    }
}

/// After its bind has completed, a window has the key that the provider wrote.
/// Proves R19.9.
#[test]
fn the_key_is_read_when_the_verb_has_returned() {
    let mut n = Noted::new(Personality::Plain);
    ERRNO.set(0);
    let window = n.pd.alloc_mw().unwrap();
    let before = window.0.core().rkey;
    let owner = window.0.core().owner.clone();
    let bind = ext::windows::MwBind::<RemoteRead>::new(window, &n.region, 0..64).unwrap();
    n.qp.bind_mw(bind).unwrap();
    assert_eq!(n.qp.sends_outstanding(), 1);
    assert_ne!(before, KEY);
    // Counts the completion of a window that the device never returns.
    owner.while_bound(|| assert_eq!(NAMED.take().len(), 1));
    let (mut again, region) = (n.pd.alloc_mw().unwrap(), n.region.shared());
    let opened = crate::memory::window::Opened {
        range: crate::memory::window::Range { addr: 0, len: 8, rights: 0 },
        mr: region.mr(),
    };
    again.0.rebind(Some((opened, region)));
    // SAFETY: the window is live, and nothing else uses it.
    unsafe { (*again.0.core().mw).rkey = KEY };
    let mut entry = WindowEntry(again.0);
    entry.0.completed(true);
    assert_eq!(entry.0.core().rkey, KEY);
}

/// A failed bind returns its window, except from librxe, which may have posted it. Then the queue
/// accepts no more work.
/// Proves R19.10.
#[test]
fn who_refuses_has_posted_nothing_but_librxe() {
    use libc::{EINVAL, ENOMEM, ENOSYS, EOPNOTSUPP};
    for (personality, errno, is_known) in [
        (Personality::Plain, EINVAL, true),
        (Personality::Plain, -ENOMEM, true),
        (Personality::Rxe, EOPNOTSUPP, true),
        (Personality::Rxe, ENOSYS, true),
        (Personality::Rxe, EINVAL, false),
        (Personality::Rxe, ENOMEM, false),
    ] {
        let mut n = Noted::new(personality);
        ERRNO.set(errno);
        let bind = |window: Type1Window, n: &Noted| {
            ext::windows::MwBind::<RemoteRead>::new(window, &n.region, 0..64).unwrap()
        };
        let of = bind(n.pd.alloc_mw().unwrap(), &n);
        let error = n.qp.bind_mw(of).unwrap_err();
        assert_eq!(error.verb(), "ibv_bind_mw");
        let kind = match is_known {
            true => PostErrorKind::Refused { errno: errno.abs() },
            false => PostErrorKind::OutcomeUnknown { errno },
        };
        assert_eq!((error.kind(), error.accepted()), (kind, 0));
        assert_eq!(error.into_rejected().count(), usize::from(is_known));
        assert_eq!(n.qp.sends_outstanding(), usize::from(!is_known));
        let of = bind(n.pd.alloc_mw().unwrap(), &n);
        let error = n.qp.bind_mw(of).unwrap_err();
        assert_eq!(error.kind() == PostErrorKind::Poisoned, !is_known, "{personality} {errno}");
    }
}
