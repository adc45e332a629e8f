// Proves R7.1, R27.3, ibv_create_qp(3): what a queue pair is created with is not for programs to say.
// Enforced by `CreatedWith` and `Creates`, which no other crate can implement, for a profile of its
// own either.
use proverbs::{ext::extended_posting::ExtendedPosting, prelude::*};
use proverbs::qp::CreatedWith;
use proverbs::{ext::srd::EfaCreateQp, rules::Creates};

profile! { Served { receive: SharedRq } }
profile! { Selected { signaling: Selective, posting: ExtendedPosting<Srd> } }

// A queue pair that receives from a shared queue, without it.
impl CreatedWith<Rc, Served> for Depth {
    const SEAL: () = ();
}

// An SRD queue pair of which one completion speaks for many work requests.
impl Creates<Srd, Selected> for EfaCreateQp {
    const SEAL: () = ();
}

fn main() {}
