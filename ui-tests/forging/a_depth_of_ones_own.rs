// Proves R7.1, ibv_create_qp(3): a queue pair cannot be created with a type that the program defines.
// Enforced by `CreatedWith`, which no other crate can implement.
use proverbs::prelude::*;
use proverbs::qp::CreatedWith;

struct Mine;

impl CreatedWith<Rc, DefaultProfile> for Mine {
    const SEAL: () = ();
}

fn main() {}
