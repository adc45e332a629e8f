// Proves R11.1, ibv_post_send(3): a wr_id always carries a handle of this crate.
// Enforced by `Entry`, which is sealed.
use proverbs::memory::Owned;

struct Mine(#[allow(dead_code)] [u8; 64]);

impl Owned for Mine {}

fn main() {}
