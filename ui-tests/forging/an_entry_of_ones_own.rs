// Proves R11.1, ibv_post_send(3): what travels through a wr_id is one of the crate's own handles.
// Enforced by `Entry`, which is sealed.
use proverbs::memory::Owned;

struct Mine(#[allow(dead_code)] [u8; 64]);

impl Owned for Mine {}

fn main() {}
