// Proves R7.10, ibv_post_send(3): what the device is given comes from this crate's work requests.
// Enforced by `SendOn`, whose supertrait no other crate can name.
use proverbs::prelude::*;

struct Mine;

impl wr::SendOn<Rc, DefaultProfile> for Mine {
    const SEAL: () = ();
}

fn main() {}
