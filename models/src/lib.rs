//! Models of the protocols between threads, in `tests/`: `cargo xtask test loom` runs them.
//!
//! A protocol of proverbs is a file that takes its atomics and locks from `crate::sync`. The models
//! take in the same file, and have a `crate::sync` of their own, with loom's: it runs a model in
//! every order that there is, and shows each load every value that memory may have for it. There is
//! nothing else here.
