//! What may go wrong with a work request, and who sees to it that it does not.

/// One word each: `type` (it does not compile), `run` (a check, or an error value), `unsafe` (the
/// caller, by a written contract), `device` (whatever the provider makes of it), `nobody` (a safe
/// call, and nothing looks). The words are from reading the crates' sources.
pub struct Held {
    /// The buffer lives, and is not touched, until its completion.
    pub lifetime: &'static str,
    /// Address and length are in the registered region whose key goes along.
    pub range: &'static str,
    /// The transport has the opcode.
    pub transport: &'static str,
    /// The queue pair is in a state that may post.
    pub state: &'static str,
    /// The completion queue cannot overrun.
    pub overrun: &'static str,
    /// After a failed post: which work requests are with the device.
    pub refused: &'static str,
    /// What else a reader should know.
    pub note: &'static str,
}

impl Held {
    pub(crate) fn print(&self) {
        let all = [
            ("lifetime", self.lifetime),
            ("range", self.range),
            ("transport", self.transport),
            ("state", self.state),
            ("overrun", self.overrun),
            ("refused", self.refused),
        ];
        all.iter().for_each(|(what, by)| println!("held {what} {by}"));
        println!("note {}", self.note);
    }
}
