//! Reports of device misuse.
//!
//! A program's mistakes fail with the errno that libibverbs' providers return. The safe interface
//! cannot make the mistakes that are reported here. With debug assertions they panic; without, they
//! behave as in libibverbs.

/// Reports that the caller of a verb broke its contract.
#[cold]
#[track_caller]
pub(crate) fn broken(contract: &str) {
    if cfg!(debug_assertions) {
        panic!("misuse of the loopback device: {contract}");
    }
}
