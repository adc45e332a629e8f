// R12.2, ibv_destroy_qp(3): each object is destroyed once (`destroy` takes it).
use proverbs::*;

fn twice(qp: QueuePair<Rc, Rts>) {
    qp.destroy().unwrap();
    qp.destroy().unwrap();
}

fn main() {}
