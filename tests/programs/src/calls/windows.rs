//! Memory windows, of type 2 and of type 1.

use super::*;

/// weight 20
fn memory_for_windows(
    w: &World,
    qp: &mut Qp<Rc, AnyState, AnyWindowed>,
    pd: &Pd,
) -> (Option<WindowRegion>, Option<Window>) {
    (pd.register::<Windowed<LocalWrite>>(64).ok(), qp.alloc_mw().ok())
}

/// weight 1
fn pair_for_windows(
    w: &World,
    context: &Context,
    pd: &Pd,
) -> (Option<Qp<Rc, Rts, AnyWindowed>>, Option<Qp<Rc, Rts, AnyWindowed>>, Option<Cq<AnyBuf>>) {
    match context.create_cq::<AnyBuf>(51).ok() {
        Some(cq) => {
            let (one, two) = w.join(
                context,
                pd.create_qp::<Rc, AnyWindowed>(&cq, &cq, DEPTH).ok(),
                pd.create_qp::<Rc, AnyWindowed>(&cq, &cq, DEPTH).ok(),
                None,
                ALIKE,
            );
            (one, two, Some(cq))
        }
        None => (None, None, None),
    }
}

/// weight 30
fn queue_pair_alloc_mw(w: &World, qp: &mut Qp<Rc, AnyState, AnyWindowed>) -> Option<Window> {
    let id = w.pick(0, [0, 7, !0]);
    let mut window = qp.alloc_mw().ok();
    if let Some(window) = &mut window {
        window.set_id(id);
    }
    window
}

/// weight 40
fn bind(
    w: &World,
    qp: &mut Qp<Rc, AnyPostsSends, AnyWindowed>,
    window: Window,
    region: &WindowRegion,
) -> Option<Ended> {
    let from = w.pick(0, [0, 8, 8, 63]);
    let to = w.pick(0, [8, 16, 64, 65]);
    match ext::windows::BindMw::<RemoteWrite>::new(window, region, from..to) {
        Ok(bind) => {
            let _ = bind.remote();
            w.kept(qp.post_send(bind)).and_then(|back| {
                back.into_iter().find_map(|back| match back {
                    AnyBuf::Window(window) => Some(window),
                    other => {
                        w.complain("a bind was refused, and returned another object");
                        drop(other);
                        None
                    }
                })
            })
        }
        Err(_) => None,
    }
}

/// weight 20
fn binds_until_it_is_full(
    w: &World,
    qp: &mut Qp<Rc, AnyPostsSends, AnyWindowed>,
    region: &WindowRegion,
) -> Option<Ended> {
    let mut back = None;
    for _ in 0..10 {
        if let Some(bind) = qp
            .alloc_mw()
            .ok()
            .and_then(|window| ext::windows::BindMw::<RemoteWrite>::new(window, region, 0..8).ok())
        {
            for kept in w.kept(qp.post_send(bind)).into_iter().flatten() {
                match kept {
                    AnyBuf::Window(window) => back = Some(window),
                    _ => w.complain("a bind was refused, and returned another object"),
                }
            }
        }
    }
    w.bounded(qp);
    back
}

/// weight 4
fn bind_for_a_peer_that_gives_it_back(
    w: &World,
    qp: &mut Qp<Rc, AnyPostsSends, AnyWindowed>,
    window: Window,
    region: &WindowRegion,
) {
    let to = w.pick(0, [8, 64]);
    let zero = w.pick(0, [true, false]);
    if let Ok(bind) = ext::windows::BindMw::<RemoteWrite>::new(window, region, 0..to) {
        let bind = if zero { bind.zero_based() } else { bind };
        let (bind, lent) = bind.lend();
        let _ = lent;
        w.posted(qp.post_send(bind));
    }
}

/// weight 10
fn protection_domain_alloc_mw(w: &World, pd: &Pd) -> Option<OneWindow> {
    let id = w.pick(0, [0, 7, !0]);
    let mut window = pd.alloc_mw().ok();
    if let Some(window) = &mut window {
        window.set_id(id);
    }
    window
}

/// weight 40
fn bind_by_the_verb(
    w: &World,
    qp: &mut Qp<Rc, AnyPostsSends, AnyWindowed>,
    window: OneWindow,
    region: &WindowRegion,
) -> Option<Ended> {
    let from = w.pick(0, [0, 8, 8, 63]);
    let to = w.pick(0, [8, 16, 64, 65]);
    match ext::windows::MwBind::<RemoteWrite>::new(window, region, from..to) {
        Ok(bind) => w.kept(qp.bind_mw(bind)).and_then(|back| {
            back.into_iter().find_map(|back| match back {
                AnyBuf::Window(window) => Some(window),
                other => {
                    w.complain("a bind was refused, and returned another object");
                    drop(other);
                    None
                }
            })
        }),
        Err(_) => None,
    }
}

/// weight 30
fn bind_again_or_to_nothing(
    w: &World,
    qp: &mut Qp<Rc, AnyPostsSends, AnyWindowed>,
    bound: OneBound,
    region: &WindowRegion,
) -> Option<Ended> {
    let ends = w.pick(0, [true, false]);
    let to = w.pick(0, [8, 64]);
    let posted = match ends {
        true => Some(qp.bind_mw(ext::windows::MwBind::unbind(bound))),
        false => ext::windows::MwBind::<RemoteWrite>::new(bound, region, 0..to)
            .ok()
            .map(|bind| qp.bind_mw(bind.fence())),
    };
    posted.and_then(|posted| w.kept(posted)).and_then(|back| {
        back.into_iter().find_map(|back| match back {
            AnyBuf::Window(window) => Some(window),
            _ => {
                w.complain("a bind was refused, and returned another object");
                None
            }
        })
    })
}

/// weight 20
fn into_bound_type1(w: &World, window: Ended) -> (Option<OneBound>, Option<OneWindow>) {
    match window.into_bound_type1::<RemoteWrite>() {
        Ok(window) => (Some(window), None),
        Err(refused) => (None, refused.into_object().into_type1().ok()),
    }
}

/// weight 20
fn a_write_through_a_window_of_type_1(
    w: &World,
    qp: &mut Qp<Rc, AnyPostsSends, P>,
    bound: &OneBound,
) {
    let len = w.pick(0, [2, 8, 9]);
    w.posted(qp.post_send(wr::RdmaWrite::inline(
        &[1, 2],
        bound.remote().slice(0, len).map_or(bound.remote(), |part| part).write(),
    )));
}

/// weight 3
fn destroy_of_windows_of_type_1(w: &World, window: OneWindow, bound: OneBound) {
    let _ = (window.destroy(), bound.destroy());
}

/// weight 30
fn its_window(w: &World, any: AnyBuf) -> Option<Ended> {
    match any {
        AnyBuf::Window(window) => Some(window),
        _ => None,
    }
}

/// weight 20
fn into_bound(w: &World, window: Ended) -> Option<Bound> {
    if ![0, 7, !0].contains(&window.id()) {
        w.complain("a window has a number that the program did not set")
    }
    window.into_bound::<RemoteWrite>().ok()
}

/// weight 20
fn into_unbound(w: &World, window: Ended) -> (Option<Window>, Option<Lent>) {
    match window.into_unbound() {
        Ok(window) => (Some(window), None),
        Err(refused) => (None, refused.into_object().into_lent().ok()),
    }
}

/// weight 30
fn a_write_through_a_window(w: &World, qp: &mut Qp<Rc, AnyPostsSends, P>, bound: &Bound) {
    let len = w.pick(0, [2, 8, 9]);
    w.posted(qp.post_send(wr::RdmaWrite::inline(
        &[1, 2],
        bound.remote().slice(0, len).map_or(bound.remote(), |part| part).write(),
    )));
}

/// weight 30
fn local_inv(
    w: &World,
    qp: &mut Qp<Rc, AnyPostsSends, AnyWindowed>,
    bound: Bound,
) -> Option<Ended> {
    w.kept(qp.post_send(ext::windows::LocalInv::new(bound))).and_then(|back| {
        back.into_iter().find_map(|back| match back {
            AnyBuf::Window(window) => Some(window),
            _ => {
                w.complain("a LOCAL_INV was refused, and returned another object");
                None
            }
        })
    })
}

/// weight 10
fn nothing_comes_through_a_window_that_is_destroyed(
    w: &World,
    qp: &mut Qp<Rc, Rts, P>,
    bound: Bound,
    region: &WindowRegion,
) {
    let there = bound.remote();
    let before = w.content(region);
    if bound.destroy().is_ok() && qp.sends_outstanding() == 0 {
        w.posted(qp.post_send(wr::RdmaWrite::inline(&[0xdd; 2], there.write())));
        if w.content(region) != before
            && before[..].contains(&0xdd) != w.content(region)[..].contains(&0xdd)
        {
            w.complain("bytes arrived through a window that is destroyed")
        }
    }
}

/// weight 3
fn window_entry_destroy(w: &World, window: Ended) {
    let _ = window.destroy();
}

/// weight 3
fn destroy_of_windows(w: &World, window: Window, lent: Lent) {
    let _ = (window.destroy(), lent.destroy());
}
