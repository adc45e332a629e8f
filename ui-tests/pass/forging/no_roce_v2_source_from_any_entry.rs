// R18.22, ibv_query_gid_ex(3): the legal twin of the test of this name.
use proverbs::device::{Gid, RoceV2Gid};
use proverbs::prelude::*;

fn path(context: &Context, peer: Gid) -> Result<AddressVector, proverbs::Error> {
    let entry = context.query_gid_entry(1, 3)?;
    AddressVector::roce_v2(RoceV2Gid::try_from(entry)?, peer)
}
