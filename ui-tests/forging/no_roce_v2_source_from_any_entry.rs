// Proves R18.22, ibv_query_gid_ex(3): no RoCE v2 path from a GID of any kind.
// Enforced by `RoceV2Gid`, which only an entry of that kind becomes.
use proverbs::device::Gid;
use proverbs::prelude::*;

fn path(context: &Context, peer: Gid) -> Result<AddressVector, proverbs::Error> {
    let entry = context.query_gid_entry(1, 3)?;
    AddressVector::roce_v2(entry, peer)
}

fn main() {}
