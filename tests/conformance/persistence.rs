//! FLUSH and ATOMIC_WRITE, on a queue pair that was created for them, with the peer's rights.

use proverbs::completion::{WcOpcode, WcStatus};
use proverbs::device::FlushGlobal;
use proverbs::ext::extended_posting::ExtendedPosting;
use proverbs::ext::persistence::{Flushable, Persistent, RemoteFlush};
use proverbs::prelude::*;

use crate::support::*;

profile! { Flushing { posting: ExtendedPosting<ext::persistence::Flush> } }
profile! { Publishing { posting: ExtendedPosting<ext::persistence::AtomicWrite> } }
profile! { Logging { posting: ExtendedPosting<(ext::persistence::Flush, ext::persistence::AtomicWrite)>, max_send_sge: 2, entry: BufList } }

/// The operations that a device has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Has {
    All,
    /// The device has both; its provider, as of rdma-core 44, lacks FLUSH.
    AtomicWriteAlone,
    Nothing,
}

fn has(dev: &Device) -> Has {
    let abilities = dev.ctx.abilities().unwrap();
    let has = (
        abilities.can::<FlushGlobal>().is_some(),
        abilities.can::<ext::persistence::AtomicWrite>().is_some(),
    );
    let is_there = by_rule!(dev, "R25.2", loopback: !dev.is_iwarp(), rxe before (6, 12): false);
    assert_eq!(has, (is_there, is_there));
    match is_there {
        false => Has::Nothing,
        true if dev.kind == Kind::Rxe && provider_is_of_44() => Has::AtomicWriteAlone,
        true => Has::All,
    }
}

/// Whether device and provider have both operations.
pub fn has_all(dev: &Device) -> bool {
    has(dev) == Has::All
}

/// Whether the loaded library is rdma-core 44 of Debian 12. The provider's file name does not show
/// it: the one of rdma-core 56 is the same.
fn provider_is_of_44() -> bool {
    std::fs::read_to_string("/proc/self/maps").unwrap().contains("/libibverbs.so.1.14.44.")
}

pub fn wish() -> Wish {
    let access = QpAccess::all() | QpAccess::FLUSH_GLOBAL;
    Wish { access, depth: Depth { send: 12, recv: 8 }, ..Wish::new() }
}

fn statuses<P: Profile<Entry = Buf>>(
    p: &mut Pair<Rc, P>,
    n: usize,
) -> Vec<Result<WcOpcode, WcStatus>> {
    let outcome = |done| match done {
        Done::Sent(sent) => Ok(sent.opcode),
        Done::Failed(failed) => Err(failed.error.status),
        other => panic!("{other:?} is no send"),
    };
    poll(&p.dev, &mut p.ca, n).into_iter().map(outcome).collect()
}

/// An operation that the device lacks is rejected before anything is created, or by its provider.
/// Proves R25.2.
#[test]
fn a_queue_pair_is_created_for_both_operations_or_rejected() {
    let p = Pair::<Rc, DefaultProfile>::new();
    let depth = Depth { send: 2, recv: 2 };
    let cq = p.dev.ctx.create_cq(16).unwrap();
    let flushing = p.pd.create_qp::<Rc, Flushing>(&cq, &cq, depth).map(drop);
    let publishing = p.pd.create_qp::<Rc, Publishing>(&cq, &cq, depth).map(drop);
    let said = |made: Result<(), proverbs::Error>| made.map_err(|error| error.to_string());
    let (flushing, publishing) = (said(flushing), said(publishing));
    let refused = |made: &Result<(), String>, why: &str| {
        let text = made.as_ref().unwrap_err();
        assert!(text.starts_with("ibv_create_qp_ex: ") && text.contains(why), "{text}");
    };
    match has(&p.dev) {
        Has::All => assert_eq!((flushing, publishing), (Ok(()), Ok(()))),
        Has::AtomicWriteAlone => {
            assert_eq!(publishing, Ok(()));
            refused(&flushing, "use a newer rdma-core");
        }
        Has::Nothing => {
            refused(&flushing, "has no FLUSH: use a profile with `posting: ExtendedPosting`");
            refused(&publishing, "has no ATOMIC_WRITE: use a profile");
            let region = p.pd.register::<Flushable<RemoteWrite>>(64);
            let text = region.unwrap_err().to_string();
            assert!(text.contains("has no FLUSH_GLOBAL: register it without"), "{text}");
        }
    }
}

/// A queue pair whose profile names FLUSH is created with FLUSH, so it calls no null
/// pointer.
/// Proves R25.2.
#[test]
fn written_data_is_flushed() {
    let dev = Device::open();
    if has(&dev) != Has::All {
        return;
    }
    let mut p = Pair::<Rc, Flushing>::with(&wish());
    let region = p.pd.register::<Flushable<RemoteWrite>>(256).unwrap();
    let at = region.remote();
    let part = at.slice(64, 8).unwrap();
    let write = wr::RdmaWrite::new(filled(&p.pool, b"an entry"), part.write());
    post_send!(p.a, [write, ext::persistence::Flush::new(part.flush_global().unwrap())]).unwrap();
    assert_eq!(statuses(&mut p, 2), [Ok(WcOpcode::RdmaWrite), Ok(WcOpcode::Flush)]);
    let mut there = [0; 8];
    region.read_at(64, &mut there).unwrap();
    assert_eq!(&there, b"an entry");

    let whole = at.flush_global().unwrap().whole_region();
    p.a.post_send(ext::persistence::Flush::new(whole).fence()).unwrap();
    p.a.post_send(ext::persistence::Flush::new(at.slice(0, 1).unwrap().flush_global().unwrap()))
        .unwrap();
    assert_eq!(statuses(&mut p, 2), [Ok(WcOpcode::Flush); 2]);
    assert_eq!(p.a.sends_outstanding(), 0);
}

/// A FLUSH needs the right of the key, for bytes in its range, and of the peer's queue pair.
/// Proves R25.1.
#[test]
fn a_flush_needs_the_right_of_the_key_and_of_the_queue_pair() {
    let dev = Device::open();
    if has(&dev) != Has::All {
        return;
    }
    type Granted = RemoteSlice<Flushable<RemoteWrite>>;
    let refused = |access, is_flushable: bool, flush: fn(Granted) -> RemoteFlush| {
        let mut p = Pair::<Rc, Flushing>::with(&Wish { access, ..wish() });
        let flushable = p.pd.register::<Flushable<RemoteWrite>>(4096).unwrap();
        let other = p.pd.register::<RemoteWrite>(4096).unwrap();
        let (addr, rkey) = match is_flushable {
            true => (flushable.remote().addr(), flushable.remote().rkey()),
            false => (other.remote().addr(), other.remote().rkey()),
        };
        p.a.post_send(ext::persistence::Flush::new(flush(Granted::from_parts(addr, 4096, rkey))))
            .unwrap();
        statuses(&mut p, 1).remove(0)
    };
    let all = |at: Granted| at.flush_global().unwrap();
    let whole = |at: Granted| at.flush_global().unwrap().whole_region();
    let beyond =
        |at: Granted| Granted::from_parts(at.addr() + 4000, 200, at.rkey()).flush_global().unwrap();
    let none =
        |at: Granted| Granted::from_parts(at.addr(), 8, at.rkey() ^ 0xff00).flush_global().unwrap();
    let granted = wish().access;
    assert_eq!(refused(granted, true, all), Ok(WcOpcode::Flush));
    assert_eq!(refused(granted, true, whole), Ok(WcOpcode::Flush));
    for flush in [all, whole] {
        assert_eq!(refused(granted, false, flush), Err(WcStatus::RemAccess));
        assert_eq!(refused(QpAccess::all(), true, flush), Err(WcStatus::RemInvReq));
    }
    assert_eq!(refused(granted, true, beyond), Err(WcStatus::RemAccess));
    assert_eq!(refused(granted, true, none), Err(WcStatus::RemAccess));
}

/// Persistent memory has the right; ordinary memory has it on devices that accept it as persistent.
/// Proves R25.1, R25.3.
#[test]
fn a_flush_to_persistence() {
    let access = wish().access | QpAccess::FLUSH_PERSISTENT;
    let dev = Device::open();
    if has(&dev) != Has::All {
        return;
    }
    let mut p = Pair::<Rc, Flushing>::with(&Wish { access, ..wish() });
    let region = p.pd.register::<Persistent<RemoteWrite>>(256);
    let takes_any = by_rule!(p.dev, "R25.3", loopback: Device::personality() != proverbs::loopback::Personality::Rxe, rxe: false);
    if !takes_any {
        assert_eq!(region.map(drop).unwrap_err().errno(), Some(libc::EINVAL));
        return;
    }
    let region = region.unwrap();
    let at = region.remote();
    for flush in [at.flush_persistent(), at.flush_global()] {
        p.a.post_send(ext::persistence::Flush::new(flush.unwrap())).unwrap();
        p.a.post_send(ext::persistence::Flush::new(flush.unwrap().whole_region())).unwrap();
    }
    assert_eq!(statuses(&mut p, 4), [Ok(WcOpcode::Flush); 4]);
    let for_writers: RemoteSlice<RemoteWrite> = region.export();
    let seen: RemoteSlice<Flushable<RemoteWrite>> = region.export();
    assert_eq!((for_writers.rkey(), seen.len()), (at.rkey(), 256));

    // A queue pair, and a key, that grant only a flush to global visibility.
    for (access, is_of_key) in [(wish().access, false), (access, true)] {
        let mut p = Pair::<Rc, Flushing>::with(&Wish { access, ..wish() });
        let flushable = p.pd.register::<Flushable<RemoteWrite>>(64).unwrap().remote();
        let at = match is_of_key {
            true => RemoteSlice::from_parts(flushable.addr(), 64, flushable.rkey()),
            false => p.pd.register::<Persistent<RemoteWrite>>(64).unwrap().remote(),
        };
        p.a.post_send(ext::persistence::Flush::new(at.flush_persistent().unwrap())).unwrap();
        let status = statuses(&mut p, 1).remove(0).unwrap_err();
        assert_eq!(status, if is_of_key { WcStatus::RemAccess } else { WcStatus::RemInvReq });
    }
}

/// Proves R25.4.
#[test]
fn eight_bytes_are_written_atomically() {
    let dev = Device::open();
    if has(&dev) == Has::Nothing {
        return;
    }
    let mut p =
        Pair::<Rc, Publishing>::with(&Wish { depth: Depth { send: 12, recv: 8 }, ..Wish::new() });
    let region = p.pd.register::<RemoteWrite>(64).unwrap();
    region.write_at(0, &[0xee; 64]).unwrap();
    let at = region.remote();
    let write =
        |offset, bytes| ext::persistence::AtomicWrite::new(at.write_cell(offset).unwrap(), bytes);
    post_send!(
        p.a,
        [
            wr::RdmaWrite::inline(b"data", at.slice(16, 4).unwrap().write()),
            write(8, *b"notice!!"),
            write(56, [7; 8]).fence(),
        ]
    )
    .unwrap();
    use WcOpcode::{AtomicWrite, RdmaWrite};
    assert_eq!(statuses(&mut p, 3), [Ok(RdmaWrite), Ok(AtomicWrite), Ok(AtomicWrite)]);
    let mut there = [0; 64];
    region.read_at(0, &mut there).unwrap();
    let mut expected = [0xee; 64];
    expected[8..16].copy_from_slice(b"notice!!");
    expected[16..20].copy_from_slice(b"data");
    expected[56..].fill(7);
    assert_eq!(there, expected);

    p.a.post_send(write(0, [1; 8])).unwrap();
    let mut deadline = p.dev.deadline("an ATOMIC_WRITE completes");
    let opcode = loop {
        match p.ca.poll_one().unwrap() {
            Some(completion) => break completion.opcode(),
            None => deadline.tick(&"nothing yet"),
        }
    };
    assert_eq!(opcode, Some(AtomicWrite));

    // It counts as a write: a read-only key does not permit it.
    let readers = p.pd.register::<RemoteRead>(64).unwrap().remote();
    let pretended = RemoteSlice::<RemoteWrite>::from_parts(readers.addr(), 64, readers.rkey());
    p.a.post_send(ext::persistence::AtomicWrite::new(pretended.write_cell(0).unwrap(), [1; 8]))
        .unwrap();
    assert_eq!(statuses(&mut p, 1), [Err(WcStatus::RemAccess)]);

    // Nor does a queue pair that grants no WRITE.
    let access = QpAccess::REMOTE_READ | QpAccess::REMOTE_ATOMIC;
    let mut p = Pair::<Rc, Publishing>::with(&Wish { access, ..Wish::new() });
    let region = p.pd.register::<RemoteWrite>(64).unwrap();
    let cell = region.remote().write_cell(0).unwrap();
    p.a.post_send(ext::persistence::AtomicWrite::new(cell, [1; 8])).unwrap();
    assert_eq!(statuses(&mut p, 1), [Err(WcStatus::RemInvReq)]);
}

/// A log entry: its pieces, made visible, and then the tail. On librxe several pieces use another
/// verb, and everything stays in order (R15.10).
/// Proves R25.5.
#[test]
fn a_log_entry_and_its_tail() {
    let dev = Device::open();
    if has(&dev) != Has::All {
        return;
    }
    let mut p = Pair::<Rc, Logging>::with(&wish());
    let region = p.pd.register::<Flushable<RemoteWrite>>(256).unwrap();
    let at = region.remote();
    let entry = at.slice(64, 11).unwrap();
    let pieces = [filled(&p.pool, b"an "), filled(&p.pool, b"entry!!!")];
    let tail = ext::persistence::AtomicWrite::new(at.write_cell(0).unwrap(), 75u64.to_ne_bytes());
    let flush = ext::persistence::Flush::new(entry.flush_global().unwrap());
    post_send!(p.a, [wr::RdmaWrite::new(pieces, entry.write()), flush, tail, flush_of(at)])
        .unwrap();
    let done = poll(&p.dev, &mut p.ca, 4).into_iter().map(|done| done.sent().opcode);
    use WcOpcode::{AtomicWrite, Flush, RdmaWrite};
    assert_eq!(done.collect::<Vec<_>>(), [RdmaWrite, Flush, AtomicWrite, Flush]);
    assert_eq!(region.cell(0).unwrap().load(std::sync::atomic::Ordering::Acquire), 75);
    let mut there = [0; 11];
    region.read_at(64, &mut there).unwrap();
    assert_eq!(&there, b"an entry!!!");
}

fn flush_of(
    at: RemoteSlice<Flushable<RemoteWrite>>,
) -> wr::WorkRequest<ext::persistence::Flush, wr::Empty> {
    ext::persistence::Flush::new(at.slice(0, 8).unwrap().flush_global().unwrap())
}
