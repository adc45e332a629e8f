// R7.1, ibv_create_qp(3): the legal twin of the test of this name.
use proverbs::prelude::*;
use proverbs::qp::CreatedWith;

struct Mine;

impl Mine {
    fn depth(&self) -> impl CreatedWith<Rc, DefaultProfile> + use<> {
        Depth { send: 8, recv: 8 }
    }
}
