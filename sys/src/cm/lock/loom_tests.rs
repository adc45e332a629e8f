//! Event channels of librdmacm: a thread that takes an event, a thread that makes a call on an id,
//! and a thread that moves the id to another channel exclude each other.

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

use super::Lock;

/// Two channels, and an id that is on one of them.
struct World {
    locks: [Lock; 2],
    /// The channel that the id is on. Read under the lock of either channel, changed under both
    /// locks.
    on: UnsafeCell<usize>,
    /// The fields of the id that librdmacm writes.
    id: UnsafeCell<u32>,
}

impl World {
    fn new() -> Arc<World> {
        let locks = [Lock::new(), Lock::new()];
        Arc::new(World { locks, on: UnsafeCell::new(0), id: UnsafeCell::new(0) })
    }

    /// Takes the pending events of ids that are on the channel.
    fn take_event(&self, channel: usize) {
        let _guard = self.locks[channel].lock();
        // SAFETY: no thread changes it at the same time; loom checks this.
        if self.on.with(|on| unsafe { *on }) == channel {
            self.touch();
        }
    }

    /// Makes a call on the id, whose owner knows its channel.
    fn call(&self, channel: usize) {
        let _guard = self.locks[channel].lock();
        self.touch();
    }

    fn touch(&self) {
        // SAFETY: no other thread does so at the same time; loom checks this.
        self.id.with_mut(|id| unsafe { *id += 1 });
    }

    fn migrate(&self, to: usize) {
        // SAFETY: no thread reads it at the same time; loom checks this.
        self.on.with_mut(|on| unsafe { *on = to });
        self.touch();
    }
}

/// The id is moved and then used on the new channel, while events are taken from both channels.
fn moves(migrate: fn(&World)) {
    loom::model(move || {
        let world = World::new();
        let takers = [0, 1].map(|channel| {
            let world = world.clone();
            thread::spawn(move || world.take_event(channel))
        });
        world.call(0);
        migrate(&world);
        world.call(1);
        takers.into_iter().for_each(|taker| taker.join().unwrap());
    });
}

#[test]
fn an_id_moves_while_events_are_taken() {
    moves(|world| {
        let _both = world.locks[0].with(&world.locks[1]);
        world.migrate(1);
    });
}

/// The opposite order.
#[test]
#[should_panic]
fn an_id_that_moves_under_one_lock() {
    moves(|world| {
        let _new = world.locks[1].lock();
        world.migrate(1);
    });
}

/// Two ids swap channels, on two threads.
fn cross(both: fn(&World, usize, usize)) {
    loom::model(move || {
        let world = World::new();
        let other = {
            let world = world.clone();
            thread::spawn(move || both(&world, 1, 0))
        };
        both(&world, 0, 1);
        other.join().unwrap();
    });
}

#[test]
fn two_ids_that_cross() {
    cross(|world, from, to| drop(world.locks[from].with(&world.locks[to])));
}
