// R7.1, R7.4, ibv_create_qp(3): the legal twin of the test of this name.
use proverbs::prelude::*;
use proverbs::qp::{CreatedWith, OnSrq};

fn of_another<'a>(
    one: OnSrq<'a, Rc, Buf, AnyThread>,
    other: OnSrq<'a, Rc, Buf, AnyThread>,
) -> [OnSrq<'a, Rc, Buf, AnyThread>; 2] {
    [other, one]
}

fn created(
    pd: &ProtectionDomain,
    cq: &CompletionQueue,
    with: impl CreatedWith<Rc, DefaultProfile>,
) {
    pd.create_qp::<Rc, DefaultProfile>(cq, cq, with).unwrap();
}
