//! Reports of what no correct program does to a device.
//!
//! A program's mistakes are answered with the errno of libibverbs' providers. The mistakes that are
//! reported here cannot be made through the safe interface: with debug assertions they panic,
//! without them they are answered as libibverbs does.

/// Reports that the caller of a verb broke its contract.
#[cold]
#[track_caller]
pub(crate) fn broken(contract: &str) {
    if cfg!(debug_assertions) {
        panic!("the loopback device was used as no correct program uses one: {contract}");
    }
}
