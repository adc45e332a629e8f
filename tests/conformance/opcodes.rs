//! Each opcode in each form, on each kind of device. The device under test must match its column of
//! the table; doing better than the table is also a failure.

use proverbs::ext::windows::Revocable;
use proverbs::post::PostErrorKind;
use proverbs::prelude::*;

use crate::support::*;

profile! { Lists { max_send_sge: 2, max_inline: 16, initiator: NoReads, entry: BufList } }
profile! { Reader { entry: BufList } }
profile! { Scatters { max_send_sge: 2, entry: BufList } }

const TEXT: &[u8; 11] = b"header+body";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Opcode {
    Send,
    SendWithImm,
    SendWithInv,
    RdmaWrite,
    RdmaWriteWithImm,
    RdmaRead,
    CmpAndSwp,
    FetchAndAdd,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// No bytes.
    Empty,
    /// Inline bytes.
    Inline,
    /// Inline bytes of two slices.
    Slices,
    Buffer,
    /// Two buffers.
    List,
}

/// The outcome of a work request.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Does {
    /// It succeeds, and all of it reaches the peer.
    Arrives,
    /// The message reaches the peer, which rejects it: its key does not belong to a window.
    EndsNoKey,
    /// The post is rejected.
    Rejected(PostErrorKind),
    /// The queue pair or the region for it is rejected, by this rule.
    NotCreated(&'static str),
}

use Does::{Arrives, EndsNoKey, NotCreated, Rejected};
use Form::{Buffer, Empty, Inline, List, Slices};
use Opcode::*;
use PostErrorKind::{InlineInvOnSiw, NotOnIwarp};

/// The opcodes that have data.
mod ops {
    pub use proverbs::ext::windows::SendWithInv;
    pub use proverbs::wr::{RdmaWrite, Send, SendWithImm};
}

/// Opcode and form; InfiniBand and RoCE (the loopback's worlds, rxe of each kernel); iWARP (the
/// loopback's, siw of each kernel); and the source.
const TABLE: &[(Opcode, &[Form], Does, Does, &str)] = &[
    (Send, &[Empty, Inline, Slices, Buffer, List], Arrives, Arrives, "ibv_post_send(3)"),
    (
        SendWithImm,
        &[Empty, Inline, Slices, Buffer, List],
        Arrives,
        Rejected(NotOnIwarp),
        "RFC 5040, section 1.2: no immediate data; map_send_opcode in providers/siw/siw.c",
    ),
    (
        SendWithInv,
        &[Empty, Buffer, List],
        EndsNoKey,
        Arrives,
        "rxe_invalidate_mw and siw_invalidate_stag of Linux: the one takes windows, the other any key",
    ),
    (
        SendWithInv,
        &[Inline, Slices],
        EndsNoKey,
        Rejected(InlineInvOnSiw),
        "siw_activate_tx_from_sq in Linux's siw_qp.c: inline data of SEND and WRITE only",
    ),
    (RdmaWrite, &[Empty, Inline, Slices, Buffer, List], Arrives, Arrives, "ibv_post_send(3)"),
    (
        RdmaWriteWithImm,
        &[Empty, Inline, Slices, Buffer, List],
        Arrives,
        Rejected(NotOnIwarp),
        "RFC 5040, section 1.2: no immediate data; map_send_opcode in providers/siw/siw.c",
    ),
    (RdmaRead, &[Buffer], Arrives, Arrives, "ibv_post_send(3)"),
    (
        RdmaRead,
        &[List],
        Arrives,
        NotCreated("R24.4"),
        "siw_activate_tx_from_sq in Linux's siw_qp.c: one element",
    ),
    (
        CmpAndSwp,
        &[Buffer],
        Arrives,
        NotCreated("R24.4"),
        "RFC 5040 has no atomics; map_send_opcode in providers/siw/siw.c",
    ),
    (
        FetchAndAdd,
        &[Buffer],
        Arrives,
        NotCreated("R24.4"),
        "RFC 5040 has no atomics; map_send_opcode in providers/siw/siw.c",
    ),
];

/// Posts in this form, with these operands.
macro_rules! post {
    ($p:expr, $form:expr, $opcode:ident $(, $operand:expr)?) => {{
        let (p, pool) = (&mut $p.a, &$p.pool);
        let (header, body) = TEXT.split_at(7);
        match $form {
            Empty => p.post_send(ops::$opcode::new(wr::Empty $(, $operand)?)),
            Inline => p.post_send(ops::$opcode::inline(TEXT $(, $operand)?)),
            Slices => p.post_send(ops::$opcode::inline_list([header, body] $(, $operand)?)),
            Buffer => p.post_send(ops::$opcode::new([filled(pool, TEXT)] $(, $operand)?)),
            List => {
                let list = [filled(pool, header), filled(pool, body)];
                p.post_send(ops::$opcode::new(list $(, $operand)?))
            }
        }
    }};
}

fn executed(opcode: Opcode, form: Form) -> Does {
    match opcode {
        RdmaRead => match form {
            List => read::<Scatters>(|p, from| {
                p.a.post_send(wr::RdmaRead::new(
                    [poisoned(&p.pool), poisoned(&p.pool)],
                    from.read(),
                ))
            }),
            _ => read::<Reader>(|p, from| {
                p.a.post_send(wr::RdmaRead::new([poisoned(&p.pool)], from.read()))
            }),
        },
        CmpAndSwp | FetchAndAdd => atomic(opcode),
        _ => message(opcode, form),
    }
}

/// A SEND or a WRITE.
fn message(opcode: Opcode, form: Form) -> Does {
    let mut p = Pair::<Rc, Lists>::new();
    let region = p.pd.register::<RemoteWrite>(TEXT.len()).unwrap();
    let text = if form == Empty { &b""[..] } else { TEXT };
    let to = region.remote().slice(0, text.len() as u64).unwrap();
    p.b.post_recv(wr::Recv::new([poisoned(&p.pool)])).unwrap();
    let posted = match opcode {
        Send => post!(p, form, Send),
        SendWithImm => post!(p, form, SendWithImm, 7),
        SendWithInv => post!(p, form, SendWithInv, Revocable::new(region.remote())),
        RdmaWrite => post!(p, form, RdmaWrite, to.write()),
        _ => match form {
            Empty => p.a.post_send(wr::RdmaWriteWithImm::new(wr::Empty, to.write(), 7)),
            Inline => p.a.post_send(wr::RdmaWriteWithImm::inline(TEXT, to.write(), 7)),
            Slices => {
                let (header, body) = TEXT.split_at(7);
                p.a.post_send(wr::RdmaWriteWithImm::inline_list([header, body], to.write(), 7))
            }
            Buffer => {
                let list = [filled(&p.pool, TEXT)];
                p.a.post_send(wr::RdmaWriteWithImm::new(list, to.write(), 7))
            }
            List => {
                let (header, body) = TEXT.split_at(7);
                let list = [filled(&p.pool, header), filled(&p.pool, body)];
                p.a.post_send(wr::RdmaWriteWithImm::new(list, to.write(), 7))
            }
        },
    };
    if let Err(error) = posted {
        return Rejected(error.kind());
    }
    if opcode == RdmaWrite {
        // A later SEND shows that it has arrived.
        drop(poll(&p.dev, &mut p.ca, 1).remove(0).sent());
        p.a.post_send(wr::Send::new(wr::Empty)).unwrap();
    }
    drop(poll(&p.dev, &mut p.ca, 1).remove(0).sent());
    let got = match poll(&p.dev, &mut p.cb, 1).remove(0) {
        Done::Failed(failed) if failed.error.status == WcStatus::RemInvReq => return EndsNoKey,
        done => done.received(),
    };
    let received: Vec<u8> = match opcode {
        RdmaWrite | RdmaWriteWithImm => {
            let mut there = vec![0; text.len()];
            region.read_at(0, &mut there).unwrap();
            there
        }
        _ => got.segments().flatten().copied().collect(),
    };
    assert_eq!(received, text);
    Arrives
}

/// The rule of an error at creation.
fn refused(error: &proverbs::Error) -> Does {
    assert!(error.to_string().contains("speaks iWARP, which has "), "{error}");
    NotCreated("R24.4")
}

fn read<P>(
    post: impl FnOnce(&mut Pair<Rc, P>, RemoteSlice<RemoteRead>) -> Result<(), PostError<BufList>>,
) -> Does
where
    P: Profile<Receive = OwnRq, Threads = AnyThread, Entry = BufList>,
    Rc: Bring<P>,
{
    let dev = Device::open();
    let (pd, cq) = (dev.ctx.alloc_pd().unwrap(), dev.ctx.create_cq(20).unwrap());
    let depth = Depth { send: 2, recv: 2 };
    if let Err(error) = pd.create_qp::<Rc, P>(&cq, &cq, depth) {
        return refused(&error);
    }
    let mut p = Pair::<Rc, P>::on(dev, &Wish { size: 8, ..Wish::new() });
    let region = p.pd.register::<RemoteRead>(8).unwrap();
    region.write_at(0, &TEXT[..8]).unwrap();
    if let Err(error) = post(&mut p, region.remote()) {
        return Rejected(error.kind());
    }
    let list = poll(&p.dev, &mut p.ca, 1).remove(0).sent().entry.unwrap();
    let read: Vec<u8> = list.segments().flatten().copied().take(8).collect();
    assert_eq!(read, TEXT[..8]);
    Arrives
}

fn atomic(opcode: Opcode) -> Does {
    let mut p = Pair::<Rc>::new();
    let region = match p.pd.register::<RemoteAtomic>(8) {
        Ok(region) => region,
        Err(error) => return refused(&error),
    };
    let cell = region.cell(0).unwrap();
    cell.store(5, std::sync::atomic::Ordering::SeqCst);
    let there = region.remote().atomic(0).unwrap();
    let sink = poisoned(&p.pool);
    let posted = match opcode {
        CmpAndSwp => {
            let operands = wr::CompareSwap { compare: 5, swap: 7 };
            p.a.post_send(wr::CmpAndSwp::new(sink, there, operands))
        }
        _ => p.a.post_send(wr::FetchAndAdd::new(sink, there, 2)),
    };
    if let Err(error) = posted {
        return Rejected(error.kind());
    }
    drop(poll(&p.dev, &mut p.ca, 1).remove(0).sent());
    assert_eq!(cell.load(std::sync::atomic::Ordering::SeqCst), 7);
    Arrives
}

#[test]
fn each_opcode_in_each_form_matches_the_table() {
    let is_iwarp = Device::open().is_iwarp();
    let mut wrong = Vec::new();
    for (opcode, forms, elsewhere, on_iwarp, source) in TABLE {
        let expected = if is_iwarp { on_iwarp } else { elsewhere };
        for &form in *forms {
            let does = executed(*opcode, form);
            let_ids_go();
            if does != *expected {
                wrong.push(format!("{opcode:?} {form:?}: {does:?}, not {expected:?} ({source})"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The table has each form of each opcode exactly once.
#[test]
fn the_table_has_each_cell_once() {
    let cells: Vec<(Opcode, Form)> = TABLE
        .iter()
        .flat_map(|(opcode, forms, ..)| forms.iter().map(|form| (*opcode, *form)))
        .collect();
    for opcode in [Send, SendWithImm, SendWithInv, RdmaWrite, RdmaWriteWithImm] {
        for form in [Empty, Inline, Slices, Buffer, List] {
            let count = cells.iter().filter(|cell| **cell == (opcode, form)).count();
            assert_eq!(count, 1, "{opcode:?} {form:?}");
        }
    }
    assert_eq!(cells.len(), 5 * 5 + 4);
}
