//! Channels.

use super::*;

/// weight 8
fn wait_timeout<'a>(
    w: &World,
    channel: &mut Channel,
    cq: &'a mut Cq<E>,
) -> Option<Completions<'a, E>> {
    let micros = w.pick(0, [0, 1, 500]);
    let most = std::time::Duration::from_micros(micros);
    w.within(most, || channel.wait_timeout(cq, most).ok())
}

/// weight 5
fn wait_solicited(w: &World, channel: &mut Channel, cq: &mut Cq<E>) {
    let soon = Some(std::time::Duration::from_micros(1));
    let _ = channel.wait_solicited(cq, soon).map(|all| all.for_each(drop));
    let _ = channel.wait_any(&mut [cq], soon);
}

/// weight 3
fn completion_channel_wait_or_woken(w: &World, channel: &mut Channel, cq: &mut Cq<E>) {
    if let Ok(waker) = proverbs::completion::Waker::new() {
        waker.wake();
        let _ = channel.wait_or_woken(cq, &waker, None).map(|all| all.for_each(drop));
        waker.wake();
        let _ = channel.wait_any_or_woken(&mut [cq], &waker, None);
    }
}

/// weight 16
fn wait_for_what_is_dead(w: &World, channel: &mut Channel, cq: &mut Cq<E>) {
    let breaks = w.pick(0, [true, false, false]);
    if breaks {
        w.inject_broken(Script::default().with(Fault::BreakCq.nth(0)));
    }
    w.waits(channel, cq);
}

/// weight 6
fn try_event(w: &World, channel: &mut Channel) {
    let _ = channel.try_event();
}

/// weight 1
fn completion_channel_destroy(w: &World, channel: Channel) -> Option<Channel> {
    channel.destroy().err().map(|refused| refused.into_object())
}

/// weight 4
fn completion_channel_into_async(w: &World, channel: Channel, cq: &mut Cq<E>) -> Option<Channel> {
    let micros = w.pick(0, [0, 1, 500]);
    w.awaits(channel, cq, std::time::Duration::from_micros(micros))
}

/// weight 2
fn device_events_into_async(w: &World, events: Events) -> Option<Events> {
    let micros = w.pick(0, [0, 1, 500]);
    w.awaits_events(events, std::time::Duration::from_micros(micros))
}
