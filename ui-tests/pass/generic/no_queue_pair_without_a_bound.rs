// R26.2, R27.2, ibv_create_qp(3): the legal twin of the test of this name.
use proverbs::prelude::*;
use proverbs::qp::{CreatedWith, Profile};
use proverbs::rules::HasBothQueues;
use proverbs::transport::Transport;

fn create<T: Transport>(pd: &ProtectionDomain, cq: &CompletionQueue, depth: Depth)
where
    Depth: CreatedWith<T, DefaultProfile>,
{
    pd.create_qp::<T, DefaultProfile>(cq, cq, depth).unwrap();
}

fn by_a_rule<T, P>(pd: &ProtectionDomain, cq: &CompletionQueue, depth: Depth)
where
    T: HasBothQueues,
    P: Profile<Entry = Buf, Receive = OwnRq, Threads = AnyThread>,
{
    pd.create_qp::<T, P>(cq, cq, depth).unwrap();
}

fn callers(pd: &ProtectionDomain, cq: &CompletionQueue, depth: Depth) {
    create::<Rc>(pd, cq, depth);
    by_a_rule::<Ud, DefaultProfile>(pd, cq, depth);
}
