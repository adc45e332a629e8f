//! Awaiting with an executor. Miri does not support epoll, and awaits nothing.

use std::time::Duration;

use proverbs::completion::AsyncCompletionChannel;
use proverbs::device::DeviceEvents;
use proverbs::memory::Entry;
use proverbs::prelude::*;
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

use crate::world::World;

/// An executor on this thread.
fn runtime() -> Option<Runtime> {
    if cfg!(miri) { None } else { Builder::new_current_thread().enable_all().build().ok() }
}

impl World {
    /// Awaits completions in each possible way, each for this long. Returns the channel.
    pub fn awaits<E: Entry + std::marker::Send>(
        &self,
        channel: CompletionChannel,
        cq: &mut CompletionQueue<E>,
        most: Duration,
    ) -> Option<CompletionChannel> {
        let Some(runtime) = runtime() else { return Some(channel) };
        let made = runtime.block_on(async { channel.into_async() });
        let mut channel: AsyncCompletionChannel = match made {
            Ok(channel) => channel,
            Err(refused) => return Some(refused.into_object()),
        };
        runtime.block_on(async {
            if let Ok(Ok(all)) = timeout(most, channel.wait(cq)).await {
                all.for_each(drop);
            }
            if let Ok(Ok(all)) = timeout(most, channel.wait_solicited(cq)).await {
                all.for_each(drop);
            }
            let _ = timeout(most, channel.wait_any(&mut [cq])).await;
        });
        let _ = format!("{:?}", channel.get_ref());
        Some(channel.into_inner())
    }

    /// Awaits an event of the device for this long.
    pub fn awaits_events(&self, events: DeviceEvents, most: Duration) -> Option<DeviceEvents> {
        let Some(runtime) = runtime() else { return Some(events) };
        let mut events = match runtime.block_on(async { events.into_async() }) {
            Ok(events) => events,
            Err(refused) => return Some(refused.into_object()),
        };
        let _ = runtime.block_on(async { timeout(most, events.next()).await.map(drop) });
        Some(events.into_inner())
    }
}
