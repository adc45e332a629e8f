//! Devices and parents.

use super::*;

/// weight 1
fn context(w: &World) -> Option<Context> {
    Some(w.fabric.open_device())
}

/// weight 1
fn alloc_pd(w: &World, context: &Context) -> Option<Pd> {
    context.alloc_pd().ok()
}

/// weight 2
fn name(w: &World, context: &Context) {
    let index = w.pick(0, [0, 1, 15, 200]);
    let _ = (
        context.name(),
        context.query_device(),
        context.query_port(1),
        context.query_gid(1, index),
        context.query_pkey(1, 0),
    );
    let _ = (
        context.node_type(),
        context.device_index(),
        context.pkey_index(1, 0xffff),
        context.query_port_speed(1),
    );
    if let Ok(it) = context.protocol(1) {
        let _ = (it.has::<Ud>(), it.has_immediates(), it.has_atomics(), it.has_address_vectors());
    }
}

/// weight 4
fn create_cq(w: &World, context: &Context) -> Option<Cq<AnyEntry>> {
    let cqe = w.pick(0, [16, 32, 32, 48, 64, 64, 96, 128, 128]);
    w.made(context.create_cq::<AnyEntry>(cqe))
}

/// weight 3
fn cq_with_a_budget(w: &World, context: &Context) -> Option<Cq<AnyEntry>> {
    let cqe = w.pick(0, [1, 4, 16, 64]);
    w.made(context.cq(cqe).shared_budget().create::<AnyEntry>())
}

/// weight 3
fn create_comp_channel(w: &World, context: &Context) -> Option<Channel> {
    context.create_comp_channel().ok()
}

/// weight 6; kin context channel
fn cq_on_channel(w: &World, context: &Context, channel: &Channel) -> Option<Cq<AnyEntry>> {
    w.made(context.cq(64).channel(channel).create::<AnyEntry>())
}

/// weight 1
fn context_destroy(w: &World, context: Context) -> Option<Context> {
    context.destroy().err().map(|refused| refused.into_object())
}

/// weight 1
fn protection_domain_destroy(w: &World, pd: Pd) -> Option<Pd> {
    pd.destroy().err().map(|refused| refused.into_object())
}

/// weight 2
fn events(w: &World, context: &Context) -> Option<Events> {
    context.events().ok()
}

/// weight 6
fn try_next(w: &World, events: &mut Events) {
    let micros = w.pick(0, [0, 1, 500]);
    let _ = (events.try_next(), events.wait_timeout(std::time::Duration::from_micros(micros)));
}

/// weight 2
fn device_events_wait_or_woken(w: &World, events: &mut Events) {
    if let Ok(waker) = proverbs::completion::Waker::new() {
        waker.wake();
        let _ = events.wait_or_woken(&waker, None);
    }
}
