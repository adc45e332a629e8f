//! Steps of ids on a channel. (Conformance on iWARP has this file too.)

use proverbs::cm::*;

use super::long;

/// The next event, which is about `id`; events of others must not come, but for the end of a
/// connection's TIMEWAIT, which comes at a time of its own.
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
