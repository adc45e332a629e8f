//! The program's own memory, by the key of an implicit region. Its bytes depend on a number
//! (`number`).

use super::*;

/// weight 4
fn register_implicit(
    w: &World,
    qp: &mut Qp<AnyConnected, AnyState, AnyMixed>,
    context: &Context,
    pd: &Pd,
) -> Option<All<AnyConnected, AnyPaged>> {
    let _ = qp;
    context
        .abilities()
        .ok()
        .and_then(|it| it.can::<Implicit<AnyConnected, AnyPaged>>())
        .and_then(|can| w.made(pd.register_implicit(&can)))
}

/// weight 1
fn queue_for_memory_on_demand(w: &World, context: &Context) -> Option<Cq<AnyBuf>> {
    w.made(context.create_cq::<AnyBuf>(64))
}

/// weight 1; on cq
fn pair_for_memory_on_demand(
    w: &World,
    context: &Context,
    pd: &Pd,
    cq: &Cq<AnyBuf>,
) -> (
    Option<Qp<AnyPaging, Rts, AnyMixed>>,
    Option<Qp<AnyPaging, Rts, AnyMixed>>,
    Option<All<AnyPaging, AnyPaged>>,
) {
    let (one, two) = w.join(
        context,
        w.made(pd.create_qp::<AnyPaging, AnyMixed>(cq, cq, DEPTH)),
        w.made(pd.create_qp::<AnyPaging, AnyMixed>(cq, cq, DEPTH)),
        None,
        ALIKE,
    );
    (
        one,
        two,
        context
            .abilities()
            .ok()
            .and_then(|it| it.can::<Implicit<AnyPaging, AnyPaged>>())
            .and_then(|can| w.made(pd.register_implicit(&can))),
    )
}

/// weight 30
fn memory_given_at_once(w: &World, all: &All<T, O>) -> Option<Given<T, O, AnyGives>> {
    let len = w.pick(0, [512, 256, 24]);
    let tag = w.pick(0, [1, 17, 200]);
    <AnyGives as Own>::fresh(len).and_then(|mut memory| {
        memory.number(tag);
        all.adopt(memory).ok()
    })
}

/// weight 10
fn adopt(
    w: &World,
    all: &All<T, O>,
    memory: AnyPrivate,
) -> (Option<Given<T, O, AnyPrivate>>, Option<AnyPrivate>) {
    let tag = w.pick(0, [1, 17, 200]);
    let mut memory = memory;
    memory.number(tag);
    match all.adopt(memory) {
        Ok(given) => (Some(given), None),
        Err(refused) => (None, Some(refused.into_object())),
    }
}

/// weight 10
fn memory_that_others_have_too(w: &World, all: &All<T, O>) -> Option<Given<T, O, Table>> {
    let at = w.pick(0, [0, 63]);
    all.adopt(w.counted()).ok().and_then(|given| given.part(at..=at).ok())
}

/// weight 6
fn implicit_buf_clone(w: &World, given: &Given<T, O, M>) -> Option<Given<T, O, M>> {
    let other = given.clone();
    if other[..] != given[..] || given.handles() < 2 {
        w.complain("a clone has other bytes, or is not counted")
    }
    Some(other)
}

/// weight 10
fn part(w: &World, given: &Given<T, O, M>) -> Option<Given<T, O, M>> {
    let from = w.pick(0, [0, 1, 8, 23]);
    let to = w.pick(0, [1, 8, 24, 25, 512, 513, usize::MAX]);
    let (first, end): (usize, usize) = (from, to);
    match (given.part(first..end), given.get(first..end)) {
        (Ok(part), Some(bytes)) if part[..] == *bytes => Some(part),
        (Err(_), None) => None,
        (part, _) => {
            w.complain(format!("from {first} to {end} of {given:?} is {part:?}"));
            None
        }
    }
}

/// weight 2
fn implicit_buf_id(w: &World, given: &mut Given<T, O, M>) {
    let id = w.pick(0, [0, 7, !0]);
    given.set_id(id);
    assert_eq!(given.id(), id);
    assert!(given.handles() > 0);
}

/// weight 30
fn into_memory(
    w: &World,
    given: Given<T, O, AnyPrivate>,
) -> (Option<AnyPrivate>, Option<Given<T, O, AnyPrivate>>) {
    match given.into_memory::<AnyPrivate>() {
        Ok(mut memory) => {
            memory.wipe();
            (Some(memory), None)
        }
        Err(given) => (None, Some(given)),
    }
}

/// weight 30
fn post_send_of_memory_that_was_given(
    w: &World,
    given: &Given<T, AnySendsPaged, M>,
    qp: &mut Qp<T, AnyPostsSends, AnyMixed>,
) {
    let from = w.pick(0, [0, 1, 8]);
    let imm = w.pick(0, [true, false]);
    let to = w.pick(0, [8, 24]);
    for (part, imm) in given.part(from..to).into_iter().zip([imm]) {
        w.posted(match imm {
            true => qp.post_send(wr::SendWithImm::paged(part, 5).solicited()),
            false => qp.post_send(wr::Send::paged(part)),
        });
    }
}

/// weight 20
fn post_send_of_all_that_was_given(
    w: &World,
    given: Given<T, AnySendsPaged, M>,
    qp: &mut Qp<T, AnyPostsSends, AnyMixed>,
) -> Option<AnyBuf> {
    let len = given.len();
    w.kept(qp.post_send(wr::Send::paged(given))).and_then(|back| back.into_iter().next()).inspect(
        |back| {
            if !matches!(back, AnyBuf::Implicit(given) if given.len() == len) {
                w.complain("memory was refused, and another object came back")
            }
        },
    )
}

/// weight 30
fn a_write_of_memory_that_was_given(
    w: &World,
    given: &Given<T, AnyWritesPaged, M>,
    qp: &mut Qp<T, AnyPostsSends, AnyMixed>,
    remote: Slice<AnyWritable>,
) {
    let from = w.pick(0, [0, 1, 8]);
    let imm = w.pick(0, [true, false, false]);
    let to = w.pick(0, [8, 24, 256]);
    w.opens(remote);
    for (part, imm) in given.part(from..to).into_iter().zip([imm]) {
        w.posted(match imm {
            true => qp.post_send(wr::RdmaWriteWithImm::paged(part, remote.write(), 3)),
            false => qp.post_send(wr::RdmaWrite::paged(part, remote.write()).fence()),
        });
    }
}

/// weight 40; at qp cq
fn memory_that_the_device_has_does_not_come_back(
    w: &World,
    given: Given<T, AnySendsPaged, AnyPrivate>,
    qp: &mut Qp<T, AnyPostsSends, AnyMixed>,
    cq: &mut Cq<EntryOf<AnyMixed>>,
) -> (Option<AnyPrivate>, Option<Given<T, AnySendsPaged, AnyPrivate>>) {
    let len = w.pick(0, [1, 8, 24]);
    let part = given.part(..len).unwrap_or_else(|_| given.clone());
    let is_there = w.posted(post_send!(qp, [wr::Send::paged(part)]));
    let _ = cq;
    match given.into_memory::<AnyPrivate>() {
        Ok(mut memory) => {
            memory.wipe();
            if is_there {
                w.complain("memory came back while the device has it")
            }
            (Some(memory), None)
        }
        Err(given) => (None, Some(given)),
    }
}

/// weight 30
fn recognize(w: &World, any: AnyBuf, all: &All<T, O>) -> Option<Given<T, O, AnyPrivate>> {
    match any {
        AnyBuf::Implicit(given) => all.recognize(given).ok(),
        _ => None,
    }
}

/// weight 2
fn implicit_region_destroy(w: &World, all: All<T, O>) -> Option<All<T, O>> {
    all.destroy().err().map(|refused| refused.into_object())
}

/// weight 3
fn a_region_that_has_memory_stays(
    w: &World,
    all: All<T, O>,
    memory: AnyPrivate,
) -> (Option<All<T, O>>, Option<Given<T, O, AnyPrivate>>) {
    let tag = w.pick(0, [1, 200]);
    let mut memory = memory;
    memory.number(tag);
    match all.adopt(memory) {
        Ok(given) => match all.destroy() {
            Err(refused) => (Some(refused.into_object()), Some(given)),
            Ok(()) => {
                w.complain("a region is gone while it has memory");
                (None, Some(given))
            }
        },
        Err(_) => (Some(all), None),
    }
}
