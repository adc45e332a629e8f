// R16.15, rdma_connect(3): the legal twin of the test of this name.
use proverbs::cm::*;

fn just_right() -> ConnectData {
    PrivateData::of(&[0; 56])
}
