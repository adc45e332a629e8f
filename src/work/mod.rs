//! The parts of a work request: opcodes, data, flags, addresses, limits.

pub(crate) mod address;
pub(crate) mod chain;
pub(crate) mod data;
pub(crate) mod fault;
pub(crate) mod flags;
pub(crate) mod gather;
pub(crate) mod inline;
pub(crate) mod limits;
pub(crate) mod opcode;
pub(crate) mod prepared;
pub(crate) mod recv;
pub(crate) mod request;
pub(crate) mod sge;
pub(crate) mod sge_list;
pub(crate) mod wc_opcode;
pub(crate) mod with_context;
pub(crate) mod with_id;
