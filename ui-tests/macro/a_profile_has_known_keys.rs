// Proves R2.11, ibv_create_qp(3): a misspelt or repeated key of a profile is not ignored.
// Enforced by `ProfileKeys`.
use proverbs::prelude::*;

profile! { Misspelt { max_inlin: 128 } }

profile! { ExternalMemory { signaling: Selective, max_send_wr: 16, entry: AnyBuf } }

profile! { Twice { max_send_sge: 2, entry: BufList, max_send_sge: 4 } }

fn main() {}

// `profile!` rejects an unknown or repeated key.
