// Proves R26.2, R27.2, ibv_create_qp(3): code that is generic over the transport names what it creates with.
// Enforced by `CreatedWith`.
use proverbs::prelude::*;
use proverbs::transport::Transport;

fn create<T: Transport>(pd: &ProtectionDomain, cq: &CompletionQueue, depth: Depth) {
    pd.create_qp::<T, DefaultProfile>(cq, cq, depth).unwrap();
}

fn main() {}
