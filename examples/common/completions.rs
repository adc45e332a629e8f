//! Waiting for completions, by polling or by sleeping on events.

use proverbs::completion::Completions;
use proverbs::{CompletionChannel, CompletionQueue, Context};

use super::Result;

/// A completion queue, and the channel to sleep on if there is one.
pub struct Polling {
    pub cq: CompletionQueue,
    channel: Option<CompletionChannel>,
}

impl Polling {
    #[allow(dead_code)] // some await instead
    pub fn new(context: &Context, cqe: u32, events: bool) -> Result<Polling> {
        if !events {
            return Ok(Polling { cq: context.create_cq(cqe)?, channel: None });
        }
        let channel = context.create_comp_channel()?;
        Ok(Polling { cq: context.cq(cqe).channel(&channel).create()?, channel: Some(channel) })
    }

    /// The completions that are there; with a channel, sleeps until there is one.
    pub fn next(&mut self) -> Result<Completions<'_, proverbs::Buf>> {
        match &mut self.channel {
            Some(channel) => Ok(channel.wait(&mut self.cq)?),
            None => {
                let completions = self.cq.poll()?;
                if completions.is_empty() {
                    // The other end may need this processor.
                    std::thread::yield_now();
                }
                Ok(completions)
            }
        }
    }
}
