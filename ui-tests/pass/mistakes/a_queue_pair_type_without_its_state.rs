// The legal twin of the mistake of this name.
use proverbs::prelude::*;

struct Client {
    qp: QueuePair<Rc, Rts>,
}
