//! Extensions: parts of the verbs that most programs do not use.
//!
//! An extension has its own types, opcodes and methods, in a separate module. The rest of the crate
//! contains only what its rules, posts and completions need to know about it, such as a row in a
//! table of opcodes. The methods belong to types of the core, so they need no import.
//!
//! | extension | for | needs | design |
//! |---|---|---|---|
//! | [`windows`] | keys for parts of a region, which are revoked without deregistering it | memory windows of the device, of type 2 or 1 | [page](https://docs.rs/crate/proverbs/latest/source/docs/windows.md) |
//! | [`xrc`] | one queue pair per remote host instead of one per remote process: its messages select a shared receive queue there | `IBV_DEVICE_XRC` of the device: the ability [`Xrc`](crate::transport::Xrc) | [page](https://docs.rs/crate/proverbs/latest/source/docs/xrc.md) |
//! | [`srd`] | reliable, unordered datagrams with RDMA, without connections | an EFA device with libefa, and extended posting | [page](https://docs.rs/crate/proverbs/latest/source/docs/srd.md) |
//! | [`extended_polling`] | completions with more fields, such as the device's clock | `ibv_create_cq_ex` of the device, with the fields | [page](https://docs.rs/crate/proverbs/latest/source/docs/extended-polling.md) |
//! | [`extended_posting`] | sends posted in sessions of `ibv_wr_*` | `ibv_create_qp_ex` of the device | [page](https://docs.rs/crate/proverbs/latest/source/docs/extended-posting.md) |
//! | [`on_demand`] | regions whose pages are not pinned, and the whole address space as one region | on-demand paging of the device: [`OnDemand`](on_demand::OnDemand), [`Implicit`](on_demand::Implicit) | [page](https://docs.rs/crate/proverbs/latest/source/docs/on-demand.md) |
//! | [`persistence`] | FLUSH and ATOMIC_WRITE: data that survives a loss of power at the peer | RC, [`FlushGlobal`](crate::device::FlushGlobal), [`FlushPersistent`](crate::device::FlushPersistent) and [`AtomicWrite`](persistence::AtomicWrite) of the device, and extended posting | [page](https://docs.rs/crate/proverbs/latest/source/docs/persistence.md) |
//! | [`device_memory`] | regions in memory of a device: its own, or a GPU's as a dma-buf | `max_dm_size` of the device ([`DeviceMemory`](crate::device::DeviceMemory)); for a dma-buf, rdma-core 34 and the driver | [page](https://docs.rs/crate/proverbs/latest/source/docs/device-memory.md) |
//! | [`path_migration`] | a second path to the peer, to which the device migrates | InfiniBand, and `AUTO_PATH_MIG` of the device | [page](https://docs.rs/crate/proverbs/latest/source/docs/path-migration.md) |
//! | [`af_ib`] | rdma_cm with InfiniBand addresses instead of IP addresses | feature `cm`, InfiniBand | [page](https://docs.rs/crate/proverbs/latest/source/docs/af-ib.md) |
//! | [`tuning`] | fewer completion events, send rates, vendor options of a connection (ECE) | the device: [`CqModeration`](crate::device::CqModeration), [`PacketPacing`](crate::device::PacketPacing), ECE | [page](https://docs.rs/crate/proverbs/latest/source/docs/tuning.md) |

#[cfg(feature = "cm")]
pub mod af_ib;
pub mod device_memory;
pub mod extended_polling;
pub mod extended_posting;
pub mod on_demand;
pub mod path_migration;
pub mod persistence;
pub mod srd;
pub mod tuning;
pub mod windows;
pub mod xrc;
