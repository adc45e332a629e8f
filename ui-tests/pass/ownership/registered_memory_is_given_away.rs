// R18.1, R18.10, ibv_reg_mr(3): the legal twin of the test of this name.
use proverbs::prelude::*;

fn vector(pd: &ProtectionDomain, table: Vec<u8>) -> Result<Vec<u8>, proverbs::Error> {
    let region = pd.region::<RemoteRead>().create_in(table)?;
    let mut table = region.destroy()?;
    table.push(1);
    Ok(table)
}

fn borrowed(pd: &ProtectionDomain, table: &'static mut [u8]) {
    let region = pd.region::<RemoteRead>().create_in(table);
    drop(region);
}
