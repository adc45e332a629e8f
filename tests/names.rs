//! Public names do not clash with std's or with each other.
#![forbid(unsafe_code)]
#![deny(ambiguous_glob_reexports)]

/// No name has two meanings, whichever modules a program imports together: the compiler checks that
/// for this module.
pub mod all {
    #[cfg(feature = "cm")]
    pub use proverbs::cm::*;
    #[cfg(feature = "loopback")]
    pub use proverbs::loopback::*;

    pub use proverbs::bounded::*;
    pub use proverbs::completion::*;
    pub use proverbs::device::*;
    pub use proverbs::endpoint::*;
    #[cfg(feature = "cm")]
    pub use proverbs::ext::af_ib::*;
    pub use proverbs::ext::device_memory::*;
    pub use proverbs::ext::extended_polling::*;
    pub use proverbs::ext::extended_posting::*;
    pub use proverbs::ext::on_demand::*;
    pub use proverbs::ext::path_migration::*;
    pub use proverbs::ext::persistence::*;
    pub use proverbs::ext::srd::*;
    pub use proverbs::ext::tuning::*;
    pub use proverbs::ext::windows::*;
    pub use proverbs::ext::xrc::*;
    pub use proverbs::memory::*;
    pub use proverbs::post::*;
    pub use proverbs::qp::*;
    pub use proverbs::rules::*;
    pub use proverbs::srq::*;
    pub use proverbs::state::*;
    pub use proverbs::transport::*;
    pub use proverbs::wr::*;
    // The root as well: programs write `use proverbs::{cm::*, *}`.
    pub use proverbs::*;
}

/// std's prelude keeps its meaning beside the crate's, and so do std's own modules.
mod beside_std {
    use std::error::Error;

    use proverbs::prelude::*;

    fn moves<T: Send + Sync>(it: T) -> T {
        it
    }

    fn fails<E: Error + 'static>(error: E) -> Result<(), Box<dyn Error>> {
        Err(Box::new(error))
    }

    #[test]
    fn the_prelude_shadows_nothing() {
        let texts: Vec<String> = Some("text".to_string()).into_iter().collect();
        assert_eq!(moves(texts), ["text"]);
        assert!(fails(std::fmt::Error).is_err());
        let _: Option<QueuePair<Rc, Rts>> = None;
    }
}
