//! Contexts that panic as they are dropped, and others of their type.

use super::*;

/// weight 1
fn loud_pool(w: &World, pd: &Pd) -> Option<LoudPool> {
    w.loud(pd, true)
}

/// weight 1
fn quiet_pool(w: &World, pd: &Pd) -> Option<LoudPool> {
    w.loud(pd, false)
}

/// weight 1
fn noisy_pair(
    w: &World,
    context: &Context,
    pd: &Pd,
) -> (
    Option<Qp<AnyConnected, Rts, AnyNoisy>>,
    Option<Qp<AnyConnected, Rts, AnyNoisy>>,
    Option<Cq<EntryOf<AnyNoisy>>>,
) {
    match context.create_cq::<LoudBuf>(51).ok() {
        Some(cq) => {
            let (one, two) = w.join(
                context,
                pd.create_qp::<AnyConnected, AnyNoisy>(&cq, &cq, DEPTH).ok(),
                pd.create_qp::<AnyConnected, AnyNoisy>(&cq, &cq, DEPTH).ok(),
                None,
                ALIKE,
            );
            (one, two, Some(cq))
        }
        None => (None, None, None),
    }
}

/// weight 12
fn take_of_contexts(w: &World, pool: &LoudPool) -> Option<LoudBuf> {
    pool.take()
}

/// weight 20
fn post_recv_of_both_contexts_and_their_pool_goes(
    w: &World,
    qp: &mut Qp<T, AnyPostsRecvs, AnyNoisy>,
    loud: LoudPool,
    quiet: &LoudPool,
) {
    for pool in [quiet, &loud, quiet] {
        if let Some(buf) = pool.take() {
            w.posted(qp.post_recv(wr::Recv::new(buf)));
        }
    }
    drop(loud);
}

/// weight 30
fn post_recv_of_contexts(w: &World, qp: &mut Qp<T, AnyPostsRecvs, AnyNoisy>, buf: LoudBuf) {
    w.posted(qp.post_recv(wr::Recv::new(buf)));
}

/// weight 15
fn post_send_of_contexts(
    w: &World,
    qp: &mut Qp<AnyConnected, AnyPostsSends, AnyNoisy>,
    buf: LoudBuf,
) {
    w.posted(qp.post_send(wr::Send::new(tagged(buf, 9, 9))));
}

/// weight 2
fn arena_with_contexts(w: &World, pd: &Pd) -> Option<LoudArena<Pages>> {
    let is_loud = w.pick(0, [true, false, false]);
    w.loud_arena(pd, is_loud)
}

/// weight 4
fn arena_in_memory_with_contexts(
    w: &World,
    pd: &Pd,
    memory: AnyPrivate,
) -> (Option<LoudArena<AnyPrivate>>, Option<AnyPrivate>) {
    let buffers = w.pick(0, [1, 4, 0]);
    let is_loud = w.pick(0, [true, false, false]);
    w.loud_arena_in(pd, memory, buffers, is_loud)
}

/// weight 20
fn take_of_an_arena_of_contexts(w: &World, arena: &LoudArena<M>) -> Option<LoudBuf> {
    let len = w.pick(0, [0, 1, 41, 64, 200]);
    arena.take(len)
}

/// weight 4; alone
fn own_memory_comes_back_from_an_arena_of_contexts(
    w: &World,
    arena: LoudArena<M>,
) -> (Option<LoudArena<M>>, Option<M>) {
    let mut back = (None, None);
    w.catch(|| back = w.cleared(arena));
    back
}
