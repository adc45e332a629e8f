// Proves R22.2: a queue pair has a rate in RTS, where its device has such.
// Enforced by `HasRate` and `Can<PacketPacing<T>>`.
use proverbs::device::{Can, PacketPacing};
use proverbs::prelude::*;

fn early(qp: &mut QueuePair<Rc, state::Rtr>, can: &Can<PacketPacing<Rc>>) {
    let _ = qp.limit_rate(can, None);
}

fn other(qp: &mut QueuePair<Uc, Rts>, can: &Can<PacketPacing<Rc>>) {
    let _ = qp.limit_rate(can, None);
}

fn main() {}
