//! What proverbs needs of the machine with its feature `rdma-sys`, looked at before rdma-sys does: the build script says in
//! a line what is missing. There is nothing to use here.

#![no_std]
#![forbid(unsafe_code)]
