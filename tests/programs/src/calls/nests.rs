//! Contexts that hold other values, which end wherever the last buffer does.

use super::*;

/// weight 2
fn pool_of_nests(w: &World, pd: &Pd) -> Option<NestPool> {
    pd.pool(64).contexts(|_| Held::None).create(2).ok()
}

/// weight 12
fn take_of_nests(w: &World, pool: &NestPool) -> Option<NestBuf> {
    pool.take()
}

/// weight 1
fn pair_of_nests(
    w: &World,
    context: &Context,
    pd: &Pd,
) -> (
    Option<Qp<AnyConnected, Rts, AnyNest>>,
    Option<Qp<AnyConnected, Rts, AnyNest>>,
    Option<Cq<EntryOf<AnyNest>>>,
) {
    match context.create_cq::<NestBuf>(51).ok() {
        Some(cq) => {
            let (one, two) = w.join(
                context,
                pd.create_qp::<AnyConnected, AnyNest>(&cq, &cq, DEPTH).ok(),
                pd.create_qp::<AnyConnected, AnyNest>(&cq, &cq, DEPTH).ok(),
                None,
                ALIKE,
            );
            (one, two, Some(cq))
        }
        None => (None, None, None),
    }
}

/// weight 20
fn post_recv_of_a_nest(w: &World, qp: &mut Qp<T, AnyPostsRecvs, AnyNest>, buf: NestBuf) {
    w.posted(qp.post_recv(wr::Recv::new(buf)));
}

/// weight 12
fn post_send_of_a_nest(w: &World, qp: &mut Qp<AnyConnected, AnyPostsSends, AnyNest>, buf: NestBuf) {
    w.posted(qp.post_send(wr::Send::new(tagged(buf, 9, 9))));
}

/// weight 25
fn a_queue_pair_in_a_context_of_a_receive_whose_pool_goes(
    w: &World,
    qp: &mut Qp<T, AnyPostsRecvs, AnyNest>,
    pool: NestPool,
    other: Qp<U, V, Q>,
) {
    w.hides();
    if let Some(mut nest) = pool.take() {
        *nest.context_mut() = Some(Box::new(other));
        w.posted(qp.post_recv(wr::Recv::new(nest)));
    }
}

/// weight 4
fn out_of_the_nest(w: &World, nest: &mut NestBuf) {
    w.catch(|| drop(nest.context_mut().take()));
}
