//! Lists of the posting macros, before their first step.

#![allow(unsafe_code)] // who goes on must know how

/// A list `L` that is begun, for the posting macros alone.
///
/// The macros go on with whatever their queue gives them, and call its methods in an `unsafe` of
/// their own. If a list could be had without, a type that lends it, but has some method of its own,
/// would take part in their steps.
#[doc(hidden)]
#[must_use = "a list that is begun posts nothing"]
pub struct Begun<L>(L);

impl<L> Begun<L> {
    #[inline(always)]
    pub(crate) fn new(list: L) -> Self {
        Begun(list)
    }

    /// The list itself.
    ///
    /// # Safety
    /// What its `emit` gives is dropped, or goes to its `post`, and nowhere else.
    #[inline(always)]
    pub unsafe fn vouch(self) -> L {
        self.0
    }
}
