// R16.15, rdma_connect(3): the legal twin of ui-tests/cm/private_data_fits_the_message.rs.
use proverbs::cm::*;

fn just_right() -> ConnectData {
    PrivateData::of(&[0; 56])
}
