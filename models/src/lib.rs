//! Models of the protocols between threads, in `tests/`: `cargo xtask test loom` runs them.
//!
//! A protocol of proverbs is a file that takes its atomics and locks from `crate::sync`. The models
//! include the same file, and have their own `crate::sync` with loom's types. loom runs a model in
//! every possible order, and lets each load return every value that the memory model allows. There
//! is no other code here.
