//! The parts of `src/memory` that the models include.

#[path = "../../../src/memory/any_handle.rs"]
pub mod any_handle;
#[allow(dead_code)] // the models use only a part of it
#[path = "../../../src/memory/blocks.rs"]
pub mod blocks;
#[path = "buf.rs"]
pub mod buf;
#[allow(dead_code)] // the models use only a part of it
#[path = "../../../src/memory/chain.rs"]
pub mod chain;
#[path = "../../../src/memory/free_list.rs"]
pub mod free_list;
#[allow(dead_code)] // the models use only a part of it
#[path = "../../../src/memory/frozen.rs"]
pub mod frozen;
#[allow(dead_code)] // the models use only a part of it
#[path = "../../../src/memory/header.rs"]
pub mod header;
#[allow(dead_code)] // the models use only a part of it
#[path = "../../../src/memory/header_slab.rs"]
pub mod header_slab;
#[allow(dead_code)] // the models use only a part of it
#[path = "../../../src/memory/kept.rs"]
pub mod kept;
#[allow(dead_code)] // the models use only a part of it
#[path = "../../../src/memory/orphaned.rs"]
pub mod orphaned;
#[allow(dead_code)] // the models use only a part of it
#[path = "../../../src/memory/owning_handle.rs"]
pub mod owning_handle;
#[allow(dead_code)] // the models use only a part of it
#[path = "../../../sys/src/mem/ranges.rs"]
pub mod ranges;
#[path = "registered.rs"]
pub mod registered;
#[allow(dead_code)] // the models use only a part of it
#[path = "../../../src/memory/slab.rs"]
pub mod slab;
