//! What a queue pair costs in memory, and what ten thousand of them on one completion queue cost a
//! post.
//!
//! Runs on the stub libibverbs: what the C library keeps for a queue pair is the stub's, so that
//! all that this program's allocator sees is on top of C's.

mod ground;
mod growth;
mod memory;

/// With `--time` it says what the posts take instead, which is for no valgrind.
fn main() -> Result<(), String> {
    if std::env::args().nth(1).is_some_and(|arg| arg == "--time") {
        return growth::time();
    }
    memory::print();
    growth::print()
}
