// R11.1, ibv_post_recv(3): the legal twin of the test of this name.
use proverbs::prelude::*;

type Any = for<'a> fn(&'a str);

fn buffer(buf: Buf<Any>) -> Buf<Any> {
    buf
}

fn list(bufs: BufList<Any>) -> BufList<Any> {
    bufs
}

fn pool(pool: Pool<Any>) -> Pool<Any> {
    pool
}
