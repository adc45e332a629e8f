// Proves R16.15, rdma_connect(3): private data has a length that depends on the call.
// Enforced by `PrivateBytes`.
use proverbs::cm::*;

fn too_long() -> ConnectData {
    PrivateData::of(&[0; 57])
}

fn main() {}
