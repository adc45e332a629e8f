// Proves R18.1, R18.10, ibv_reg_mr(3): memory that is registered cannot be freed, resized or moved.
// Enforced by its move into the region or pool.
use proverbs::prelude::*;

fn vector(pd: &ProtectionDomain, mut table: Vec<u8>) {
    let region = pd.region::<RemoteRead>().create_in(table);
    table.push(1);
    drop(region);
}

fn borrowed(pd: &ProtectionDomain, table: &mut [u8]) {
    let region = pd.region::<RemoteRead>().create_in(table);
    drop(region);
}

fn main() {}
