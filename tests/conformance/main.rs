//! One suite for every device. It checks the crate's promises on the loopback device, under Miri,
//! and on a real device if `PROVERBS_DEVICE` names one (`PROVERBS_GID_INDEX`: its GID, 0 if unset).
//!
//! Where devices differ, `by_rule!` names the rule and one exact value for each (R10.16 and
//! others).
#![deny(unsafe_code)] // except for opaque memory, which one module registers

mod support;

mod any_state;
mod arena;
mod atomics;
#[cfg(all(feature = "tokio", not(miri)))]
mod awaited;
mod bookings;
mod bounds;
mod budget;
mod comes_home;
mod connected;
#[cfg(all(feature = "tokio", not(miri)))]
mod connecting;
mod counters;
mod device_events;
mod device_memory;
mod drain;
mod endings;
mod endpoint;
mod errors;
mod events;
mod exact_limits;
mod extend;
mod extended_polling;
mod extended_posting;
mod forget;
mod gids;
mod handles;
mod infiniband;
mod inline;
mod inline_list;
#[cfg(feature = "cm")]
mod iwarp;
mod lanes;
mod lengths;
mod lists;
mod on_demand;
mod opaque;
mod opcodes;
mod own_memory;
mod owning;
mod persistence;
mod pieces;
mod pools;
mod prepared;
mod providers;
mod query;
mod reads;
mod redeem;
mod refusals;
mod reset;
mod resize;
mod rights;
mod second_life;
mod selective;
mod sge;
mod shared;
mod srd;
mod srq;
mod states;
mod teardown;
mod tuning;
mod turning;
mod type1_windows;
#[cfg(feature = "zerocopy")]
mod typed;
mod ud;
mod ud_addresses;
mod waits;
mod windows;
mod xrc;
mod zero_copy;
