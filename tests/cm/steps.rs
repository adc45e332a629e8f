//! Steps of ids on a channel. (The conformance suite for iWARP uses this file too.)

use proverbs::cm::*;

use super::long;

/// The next event, which must be about `id`. Events of other ids must not arrive, except for the
/// end of a connection's TIMEWAIT, which arrives at its own time.
pub fn event_of(channel: &EventChannel, id: IdKey) -> Event {
    let event = next_event(channel);
    assert_eq!(event.id(), id, "{event:?}");
    event
}

pub fn next_event(channel: &EventChannel) -> Event {
    loop {
        let event = channel.wait_timeout(long()).unwrap().expect("an event");
        if event.kind() != EventKind::TimewaitExit {
            return event;
        }
    }
}

pub fn done<D, W, F>(step: Progress<D, W, F>) -> D {
    match step {
        Progress::Done(done) => done,
        Progress::Waiting(_) => panic!("still waiting"),
        Progress::Failed(refused) => panic!("{refused}"),
    }
}
